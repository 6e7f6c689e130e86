"""Context assembly: the tokens of a prompt, with an account by source.

The order is: BOS, template, memory, constant lore, the story so far, request and the rest of the template,
then the story from the cut on, with note and triggered lore anchored inside it.  Parts that change least come
first, and movable parts keep their places, so that most prompts continue the previous one.  A wish, which is
for one prompt only, is put near the end.

:func:`assemble` is pure.  What must stay put between prompts is a :data:`Layout`, returned and passed back
in; keep it on the node.  Offsets into text are in characters, sizes in tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

import regex

from srbwriter.story.lore import scan
from srbwriter.story.model import LoreEntry, Span, StorySettings, Template

Source = Literal["bos", "template", "memory", "lore", "so far", "request", "note", "wish", "story"]
"""The kind of a part of the prompt."""

Layout: TypeAlias = "Mapping[str, tuple[str, int]]"
"""The places that stay the same from one assembly to the next so that the cached prefix survives: each a node
and a character in it. ``cut`` is where the story begins in the window (missing: at its beginning), ``note``
and ``lore:<id>`` are what stands in it. Pass back the layout of the nearest node up the path that has one; a
place that is no longer on the path is ignored."""

STORY_SHARE = 4
"""Denominator of the least share of the window for the story; notes and lore are shortened first."""

SMALLEST_STORY = 16
"""Fewest tokens of story in a usable window."""

DEFAULT_NOTE_DEPTH = 3
"""Lines from the end for an author's note without a depth; the custom of Kobold and mikupad."""

DEFAULT_LORE_DEPTH = 12
"""Lines from the end for a triggered entry without a depth: near the end, but not at it."""

KEEP_AFTER_CUT = 0.75
"""Share of the story's room that is filled after a new cut; the rest is free until the next cut."""

KEEP_AT_LEAST = 0.5
"""Least share that a cut may leave in order to be at the end of a paragraph."""

KEEP_OLD_CUT = 0.25
"""An old cut is replaced if it leaves less than this share although there is more story."""

DRIFT = 0.3
"""Share of the story's room that the story may grow past a note before the note follows.

A little more than a cut frees: in a full window the next cut then comes first and moves both at once.
"""

NEAR_END = 400
"""Characters of the story, at most, that follow a wish."""

_PARAGRAPH_END = regex.compile(r"\n+")
_SENTENCE_END = regex.compile(r"(?<=[.!?…][\"'”’»)\]]*)\s+")
_WORD_END = regex.compile(r"\s+")


class ContextError(ValueError):
    """The window cannot hold the required parts; the message names the cure."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A vocabulary as functions.

    ``tokenize`` turns text into ids and adds nothing (no BOS, no EOS, no leading space);
    ``pieces`` gives the bytes of each id; ``vocabulary`` is the fingerprint ids are stored with.
    ``tokenize_template`` is for template text, where names of special tokens mean those tokens;
    without it ``tokenize`` is used.
    """

    tokenize: Callable[[str], Sequence[int]]
    pieces: Callable[[Sequence[int]], Sequence[bytes]]
    vocabulary: str = ""
    tokenize_template: Callable[[str], Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """The model's window: ``n_ctx`` tokens, of which ``reserve`` stay free for generated text.

    ``bos`` are the ids that the model needs at the very start.
    """

    n_ctx: int
    reserve: int
    bos: Sequence[int] = ()

    @property
    def available(self) -> int:
        return self.n_ctx - self.reserve


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A run of the prompt.  ``ident`` is the node id for story, the entry id for lore, else empty.

    ``stored``: the tokens are those that the story keeps, and not made of the text just now.
    """

    source: Source
    text: str
    tokens: tuple[int, ...] = ()
    ident: str = ""
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Assembly:
    """A prompt, its parts in order, the text without room, and which lorebook keys could not be tried.

    Of the story everything before the cut has no room.
    """

    segments: tuple[Segment, ...]
    tokens: tuple[int, ...]
    dropped: tuple[Segment, ...]
    layout: Layout
    problems: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)


class _Movable(NamedTuple):
    """A note or entry inside the story, ``depth`` lines from its end; ``key`` is its name in the layout.

    ``wanted`` is false for an entry that is no longer activated; it may keep its place.
    """

    key: str
    segment: Segment
    depth: int
    order: int
    wanted: bool = True


def assemble(
    path: Iterable[tuple[str, Sequence[Span]]],
    settings: StorySettings,
    tokenizer: Tokenizer,
    window: Window,
    layout: Layout | None = None,
    wish: Sequence[Segment] = (),
) -> Assembly:
    """Lay out the prompt that continues ``path``: the last nodes of a story, each an id and its spans.

    A span's ids are used if they are of the tokenizer's vocabulary, and the text before still ends with its
    lead. ``settings`` are the effective ones at the end of the path.  ``layout`` is that of an earlier
    assembly; it changes only the places of the texts. ``wish`` is put near the end of the story and moves
    nothing else. Never exceeds ``window.available``.  Raises
    :class:`ContextError` for a window too small.

    Room is given to template and request first, then to the note, the memory, what was told of the story so
    far, active lore, and lore that may stay where it stands.
    """
    story, old = _Story(path, tokenizer), layout or {}
    template, dropped = settings.template or Template(), list[Segment]()

    def part(source: Source, text: str, ident: str = "") -> list[Segment]:
        tokenize = tokenizer.tokenize_template if source == "template" else None
        return [Segment(source, text, tuple((tokenize or tokenizer.tokenize)(text)), ident)] if text else []

    def beginning(source: Source, text: str | None, most: int, ident: str = "") -> list[Segment]:
        """Return what fits of ``text`` as whole lines, cut at a word, and record the rest as dropped."""
        text = f"{text}\n" if text and not text.endswith("\n") else text or ""
        kept = part(source, text, ident)
        if _size(kept) > most:
            ends = [match.end() for match in _WORD_END.finditer(text)]
            fit = bisect_right(ends, most, key=lambda end: len(tokenizer.tokenize(text[:end])))
            kept = part(source, text[: ends[fit - 1]], ident) if fit else []
        if rest := text[sum(len(segment.text) for segment in kept) :]:
            dropped.append(Segment(source, rest, ident=ident))
        return kept

    def lore(entries: Iterable[LoreEntry], complain: bool = True) -> dict[str, Segment]:
        """Return the entries that fit, by id; those of a higher order get room first."""
        nonlocal room
        chosen: dict[str, Segment] = {}
        for entry in sorted(entries, key=lambda entry: -entry.order):
            budget = window.n_ctx if entry.token_budget is None else entry.token_budget
            kept = beginning("lore", entry.text, budget, entry.id)
            if kept and _size(kept) <= room:
                room -= _size(kept)
                chosen[entry.id] = kept[0]
            elif complain:
                dropped.append(Segment("lore", entry.text, ident=entry.id))
        return chosen

    # What does not move, and how much room it leaves.
    active, problems = scan(settings.lore, story.text, scan_depth=settings.scan_depth)
    constant = [entry for entry in active if entry.constant and entry.depth is None]
    before, between, tail = (
        part("template", text) for text in (template.before, template.between, template.after)
    )
    after_text = settings.memory or settings.so_far or constant
    request = part("request", ("\n" if after_text else "") + template.request) if template.request else []
    room = window.available - len(window.bos) - _size([*before, *between, *tail, *request, *wish])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {window.n_ctx} tokens, {window.reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    all_room = room
    room -= max(room // STORY_SHARE, SMALLEST_STORY)
    note = beginning("note", settings.author_note, max(room, 0))
    memory = beginning("memory", settings.memory, max(room - _size(note), 0))
    so_far = beginning("so far", settings.so_far, max(room - _size([*note, *memory]), 0))
    room -= _size([*note, *memory, *so_far])
    room = min(room, settings.lore_budget) if settings.lore_budget is not None else room
    stable = lore(constant)
    moving = lore(entry for entry in active if entry not in constant)
    lingering = [e for e in settings.lore if f"lore:{e.id}" in old and e.enabled and e not in active]
    staying = lore(lingering, complain=False)
    entries = {entry.id: entry for entry in sorted(settings.lore, key=lambda entry: entry.order)}
    bos = [Segment("bos", "", tuple(window.bos))] if window.bos else []
    constants = [stable[ident] for ident in entries if ident in stable]
    head = [*bos, *before, *memory, *constants, *so_far, *request, *between]

    # What stands in the story, and where the story begins.
    depth = DEFAULT_NOTE_DEPTH if settings.author_note_depth is None else settings.author_note_depth
    movable = [_Movable("note", segment, depth, 0) for segment in note]
    for ident, segment in (moving | staying).items():
        entry = entries[ident]
        depth = DEFAULT_LORE_DEPTH if entry.depth is None else entry.depth
        movable.append(_Movable(f"lore:{ident}", segment, depth, entry.order, ident in moving))
    room = all_room - _size([*memory, *constants, *so_far])
    left = max(room - _size(item.segment for item in movable), 0)
    before_cut = story.find(old.get("cut"))
    cut = _cut(story, left, before_cut)
    anchors = old if cut == (before_cut or 0) else {}
    drift = int(DRIFT * room * (len(story.text) - cut) / max(story.size(cut), 1))  # in characters
    places = _settle(movable, story, cut, anchors, drift)
    middle = _open(story, cut, movable, places, wish)
    if cut:
        places = {"cut": cut, **places}
        dropped.append(Segment("story", story.text[:cut], ident=story.position(cut)[0]))
    segments = (*head, *middle, *tail)
    tokens = tuple(token for segment in segments for token in segment.tokens)
    kept = {key: story.position(at) for key, at in places.items()}
    return Assembly(segments, tokens, tuple(dropped), kept, tuple(problems))


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


# -- the text of the story, with its tokens ----------------------------------------------------------


class _Story:
    """The text of a path, which can be opened where a token begins; places are characters from its start.

    Token ids that are stored are only sliced; any other run of text is tokenised for itself.
    """

    def __init__(self, path: Iterable[tuple[str, Sequence[Span]]], tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._tokens = cache(self._find_tokens)
        self._runs: list[Segment] = []
        self._nodes: dict[str, tuple[int, int]] = {}
        at = 0
        for node, spans in path:
            begin = at
            for span in spans:
                stored = bool(span.text and span.ids and span.vocab == tokenizer.vocabulary != "")
                if stored and span.lead:
                    self._add_healed(node, span)
                elif span.text:
                    self._runs.append(Segment("story", span.text, span.ids if stored else (), node, stored))
                at += len(span.text)
            if at > begin:
                self._nodes[node] = begin, at
        self._places = list(accumulate((len(run.text) for run in self._runs), initial=0))
        self.text = "".join(run.text for run in self._runs)

    def _add_healed(self, node: str, span: Span) -> None:
        """Add a span whose tokens begin in the text before; those of another text become text."""
        run, edge = Segment("story", span.lead + span.text, span.ids, node, True), len(span.lead)
        before = self._runs[-1] if self._runs else None
        start = len(before.text) - edge if before else 0
        if before and before.text.endswith(span.lead) and (not before.stored or self._begins(before, start)):
            self._runs[-1:] = [self._slice(before, 0, start)] if start else []
            edge = 0
        first = next((at for at in self._tokens(run)[1] if at >= edge), len(run.text))
        if first > edge:
            self._runs.append(Segment("story", run.text[edge:first], (), node))
        if first < len(run.text):
            self._runs.append(self._slice(run, first, len(run.text)))

    def _find_tokens(self, run: Segment) -> tuple[Sequence[int], list[int]]:
        """Return the tokens of a run, and the character at which each begins.

        One that begins inside a character has the place of that character. Where the bytes of the tokens are
        not those of the text, as after byte repair, only lines can be opened, and stored tokens not at all.
        """
        ids = run.tokens if run.stored else self._tokenizer.tokenize(run.text)
        pieces = self._tokenizer.pieces(ids)
        if b"".join(pieces) == run.text.encode("utf-8", "surrogatepass"):
            sizes = [sum(byte & 0xC0 != 0x80 for byte in piece) for piece in pieces]  # characters that begin
            ends = accumulate(sizes, initial=0)
            return ids, [
                at - (0x80 <= piece[0] < 0xC0 if piece else 0)
                for at, piece in zip(ends, pieces, strict=False)
            ]
        if run.stored:
            return ids, [0] * len(ids)
        lines = run.text.splitlines(keepends=True)
        each = [self._tokenizer.tokenize(line) for line in lines]
        begins = accumulate((len(line) for line in lines), initial=0)
        starts = [at for at, some in zip(begins, each, strict=False) for _ in some]
        return [token for some in each for token in some], starts

    def _begins(self, run: Segment, at: int) -> bool:
        """Return whether a token of ``run`` begins at its character ``at``."""
        starts = self._tokens(run)[1]
        place = bisect_left(starts, at)
        return at == 0 or (place < len(starts) and starts[place] == at)

    def _slice(self, run: Segment, first: int, last: int) -> Segment:
        """Return ``run`` between two characters at which tokens begin, with its stored tokens."""
        if not run.stored or (first, last) == (0, len(run.text)):
            return replace(run, text=run.text[first:last])
        ids, starts = self._tokens(run)
        end = bisect_left(starts, last) if last < len(run.text) else len(ids)
        return replace(run, text=run.text[first:last], tokens=tuple(ids[bisect_left(starts, first) : end]))

    def segments(self, start: int, end: int) -> list[Segment]:
        """Return the text from ``start`` to ``end`` as story segments."""
        found: list[Segment] = []
        first = max(bisect_right(self._places, start) - 1, 0)
        for index in range(first, bisect_left(self._places, end) if start < end else first):
            run, at = self._runs[index], self._places[index]
            ids, starts = self._tokens(run)
            low, high = max(start - at, 0), min(end - at, len(run.text))
            behind = bisect_left(starts, high) if high < len(run.text) else len(ids)
            tokens = tuple(ids[bisect_left(starts, low) : behind])
            found.append(replace(run, text=run.text[low:high], tokens=tokens))
        return found

    def size(self, start: int) -> int:
        """Return how many tokens the text from ``start`` on has."""
        return _size(self.segments(start, len(self.text)))

    def opens(self, at: int) -> bool:
        """Return whether the text can be opened at ``at`` without breaking a token."""
        index = bisect_right(self._places, at) - 1
        return index == len(self._runs) or self._begins(self._runs[index], at - self._places[index])

    def from_end(self, tokens: int) -> int:
        """Return the first place that opens and has at most ``tokens`` tokens behind it."""
        for run, at in zip(reversed(self._runs), reversed(self._places[:-1]), strict=True):
            ids, starts = self._tokens(run)
            if (first := len(ids) - tokens) > 0:
                while first < len(ids) and starts[first] == starts[first - 1]:
                    first += 1
                return at + (starts[first] if first < len(ids) else len(run.text))
            tokens -= len(ids)
        return 0

    def position(self, at: int) -> tuple[str, int]:
        """Return ``at`` as a node and a character in it, which a later path can find."""
        found = (node for node, (begin, _) in reversed(self._nodes.items()) if begin <= at)
        node = next(found, "")
        begin, end = self._nodes.get(node, (0, 0))
        return node, min(at, end) - begin

    def find(self, position: tuple[str, int] | None) -> int | None:
        """Return the place of ``position``, ``None`` if it is not on the path or a token is there now."""
        node, offset = position or ("", 0)
        begin, end = self._nodes.get(node, (0, -1))
        return begin + offset if begin + offset <= end and self.opens(begin + offset) else None

    def line_start(self, lines: int, cut: int) -> int:
        """Return the start of the last ``lines`` lines that are not blank; ``cut`` if fewer are behind it."""
        end = len(self.text.rstrip())
        while end > cut:
            start = max(self.text.rfind("\n", cut, end) + 1, cut)
            lines -= self.text[start:end].strip() != ""
            if lines <= 0 and self.opens(start):
                return start
            end = start - 1
        return cut


# -- where the story begins in the window, and what stands in it --------------------------------------


def _cut(story: _Story, room: int, old: int | None) -> int:
    """Return where the story begins in the window: where it did, or as far back as there is room."""
    if old and KEEP_OLD_CUT * room <= story.size(old) <= room:
        return old
    if story.from_end(room) == 0:
        return 0
    first, last = story.from_end(int(KEEP_AFTER_CUT * room)), story.from_end(int(KEEP_AT_LEAST * room))
    return next(_boundaries(story.text, first, last, story.opens), first)


def _boundaries(text: str, first: int, last: int, opens: Callable[[int], bool]) -> Iterator[int]:
    """Yield places between two others where a text may be parted: paragraphs, sentences, words."""
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        for match in boundary.finditer(text, max(first - 1, 0), last):
            for at in (match.end(), match.start()):
                if first <= at <= last and opens(at):
                    yield at


def _settle(
    items: Sequence[_Movable], story: _Story, cut: int, anchors: Layout, drift: int
) -> dict[str, int]:
    """Return the place of every item in the story, by key.

    An item near the end of a story breaks the cached prefix whenever it moves. So it keeps its place
    (``anchors``) while the story grows past it, by up to ``drift`` characters. The items behind a break then
    move too, since that costs nothing more.
    """
    kept, ideals, moving = dict[str, int](), dict[str, int](), set[str]()
    for item in items:
        ideal = story.line_start(max(item.depth, 1), cut)
        old = story.find(anchors.get(item.key))
        if item.wanted:
            ideals[item.key] = ideal
        if old is None or old < cut:
            moving |= {item.key} if item.wanted else set()
            continue
        kept[item.key] = old
        if ideal - old > drift or (old > ideal and old > story.line_start(1, cut)):
            moving.add(item.key)
    changed = [places[key] for key in moving for places in (kept, ideals) if key in places]
    break_at = min(changed, default=len(story.text) + 1)
    return ideals | {key: at for key, at in kept.items() if key not in moving and at < break_at}


def place_near_end(text: str, opens: Callable[[int], bool] = lambda _: True) -> int:
    """Return the offset of the last line of ``text``; of a sentence or a word in it if that line is long.

    Only where ``opens`` allows a cut; otherwise the end of ``text``.
    """
    end = len(text.rstrip())
    line = text.rfind("\n", 0, end) + 1
    if line >= end - NEAR_END and opens(line):
        return line
    return next(_boundaries(text, max(end - NEAR_END, 0), end, opens), len(text))


def _open(
    story: _Story, cut: int, items: Sequence[_Movable], places: Mapping[str, int], wish: Sequence[Segment]
) -> list[Segment]:
    """Return the story with each item at its place; at the same place lore precedes the note, and the wish is
    last."""
    standing = sorted(
        (item for item in items if item.key in places),
        key=lambda item: (places[item.key], item.segment.source == "note", item.order, item.key),
    )
    inserted: list[tuple[int, Sequence[Segment]]] = [(places[item.key], (item.segment,)) for item in standing]
    if wish:
        inserted.append((max(place_near_end(story.text, story.opens), cut), wish))
        inserted.sort(key=lambda pair: pair[0])
    segments, start = list[Segment](), cut
    for at, some in inserted:
        segments += [*story.segments(start, at), *some]
        start = at
    return [*segments, *story.segments(start, len(story.text))]
