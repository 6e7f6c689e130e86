"""Context assembly: the tokens of a prompt, with an account by source.

The order is: BOS, template, memory, constant lore, the story so far, request and the rest of the template,
then the story from the cut on, with note and triggered lore anchored inside it.  Parts that change least come
first, and movable parts keep their places, so that most prompts continue the previous one.  A wish, which is
for one prompt only, is put near the end.

:func:`assemble` is pure.  What must stay put between prompts is a :class:`Layout`, returned and passed back
in; keep it on the node.  Offsets into text are in characters, sizes in tokens.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import accumulate, groupby
from typing import Literal, NamedTuple

import regex

from srbwriter.story.lore import reach, scan
from srbwriter.story.model import LoreEntry, Settings, Span, Template

Source = Literal["bos", "template", "memory", "lore", "so far", "request", "note", "wish", "story"]
"""The kind of a part of the prompt."""

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

_SHARES = (KEEP_AFTER_CUT, KEEP_AT_LEAST, 0.25, 0.1, 0.0)
_MOST_CHARS = 12  # characters of a token in a window full of prose, at most
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


class Position(NamedTuple):
    """A place in the story, valid until its node is edited."""

    node_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The places that have to stay the same from one assembly to the next so that the cached prefix survives.

    ``cut`` is the start of the story in the window (``None``: its beginning); ``anchors`` are the places
    of the note (key ``"note"``) and of lore entries (key ``"lore:<id>"``).  Pass back the layout
    of the nearest node up the path that has one; a place that is no longer on the path is ignored.
    """

    cut: Position | None = None
    anchors: Mapping[str, Position] = field(default_factory=dict[str, Position])


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of the prompt.  ``ident`` is the node id for story, the entry id for lore, else empty.

    ``stored``: the tokens are those that the story keeps, and not made of the text just now.
    Neighbouring story runs without stored ids are tokenised together and share a segment, which then
    bears the id of the first.
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
    """A note or entry inside the story, ``depth`` lines from its end.

    ``wanted`` is false for an entry that is no longer activated; it may keep its place.
    """

    key: str
    segment: Segment
    depth: int
    order: int
    wanted: bool = True


def assemble(
    path: Iterable[tuple[str, Sequence[Span]]],
    settings: Settings,
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
    """
    story, old = _Story(path, tokenizer), layout or Layout()
    searched = max(0, len(story.text) - reach(settings.lore, settings.scan_depth))
    active, problems = scan(settings.lore, story.text[searched:], scan_depth=settings.scan_depth)
    lingering = [e for e in settings.lore if f"lore:{e.id}" in old.anchors and e.enabled and e not in active]
    inner = replace(window, reserve=window.reserve + _size(wish))
    head, tail, movable, dropped = _fit(settings, active, lingering, tokenizer, inner)
    room = window.available - _size(head) - _size(tail)
    left = room - _size(wish) - _size(item.segment for item in movable)
    before = story.find(old.cut) if old.cut is not None else None
    for cut in _cuts(story, left, before):
        anchors = old.anchors if cut == (before or 0) else dict[str, Position]()
        drift = int(DRIFT * room * (len(story.text) - cut) / max(story.size(cut), 1))  # in characters
        places = _settle(movable, story, cut, anchors, drift)
        segments = _open(story, cut, movable, places, wish)
        if _size(segments) <= room:
            break
    else:  # the last cut is at the end, and the movable parts are fitted, so this cannot happen
        raise AssertionError("an empty story did not fit")
    if cut:
        dropped.append(Segment("story", story.text[:cut], ident=story.position(cut).node_id))
    segments = (*head, *segments, *tail)
    tokens = tuple(token for segment in segments for token in segment.tokens)
    kept = Layout(
        story.position(cut) if cut else None, {key: story.position(at) for key, at in places.items()}
    )
    return Assembly(segments, tokens, tuple(dropped), kept, tuple(problems))


# -- the parts that are not story --------------------------------------------------------------------


def _fit(
    settings: Settings,
    active: Sequence[LoreEntry],
    lingering: Sequence[LoreEntry],
    tokenizer: Tokenizer,
    window: Window,
) -> tuple[list[Segment], list[Segment], list[_Movable], list[Segment]]:
    """Allot room to each part, by priority: template and request, note, memory, active lore, lingering lore.

    Returns what stands before, behind and in the story, and what has no room.

    Raises :class:`ContextError` when the window cannot even hold template, request and a little story.
    """
    template, dropped = settings.template or Template(), list[Segment]()

    def part(source: Source, text: str, ident: str = "") -> list[Segment]:
        tokenize = tokenizer.tokenize_template if source == "template" else None
        return [Segment(source, text, tuple((tokenize or tokenizer.tokenize)(text)), ident)] if text else []

    def beginning(source: Source, text: str, most: int, ident: str = "") -> list[Segment]:
        """Return what fits of ``text`` as whole lines, cut at a word, and record the rest as dropped."""
        text += "" if not text or text.endswith("\n") else "\n"
        kept = part(source, text, ident)
        if _size(kept) > most:
            ends = [match.end() for match in _WORD_END.finditer(text)]
            fit = bisect_right(ends, most, key=lambda end: len(tokenizer.tokenize(text[:end])))
            kept = part(source, text[: ends[fit - 1]], ident) if fit else []
        if rest := text[sum(len(segment.text) for segment in kept) :]:
            dropped.append(Segment(source, rest, ident=ident))
        return kept

    def lore(entries: Sequence[LoreEntry], room: int, complain: bool = True) -> dict[str, Segment]:
        """Return the entries that fit, by id; those of a higher order get room first."""
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

    constant = [entry for entry in active if entry.constant and entry.depth is None]
    texts = template.before, template.between, template.after
    before, between, tail = (part("template", text) for text in texts)
    follows_text = settings.memory or settings.so_far or constant
    request = part("request", ("\n" if follows_text else "") + template.request) if template.request else []
    room = window.available - len(window.bos) - _size([*before, *between, *tail, *request])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {window.n_ctx} tokens, {window.reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    room -= max(room // STORY_SHARE, SMALLEST_STORY)
    note = beginning("note", settings.author_note or "", max(room, 0))
    memory = beginning("memory", settings.memory or "", max(room - _size(note), 0))
    so_far = beginning("so far", settings.so_far or "", max(room - _size(note) - _size(memory), 0))
    room -= _size([*note, *memory, *so_far])
    if settings.lore_budget is not None:
        room = min(room, settings.lore_budget)
    stable = lore(constant, room)
    moving = lore([entry for entry in active if entry not in constant], room := room - _size(stable.values()))
    staying = lore(lingering, room - _size(moving.values()), complain=False)

    bos = [Segment("bos", "", tuple(window.bos))] if window.bos else []
    entries = {entry.id: entry for entry in sorted(settings.lore, key=lambda entry: entry.order)}
    constants = [stable[ident] for ident in entries if ident in stable]
    depth = DEFAULT_NOTE_DEPTH if settings.author_note_depth is None else settings.author_note_depth
    movable = [_Movable("note", segment, depth, 0) for segment in note]
    for ident, segment in (moving | staying).items():
        entry = entries[ident]
        depth = DEFAULT_LORE_DEPTH if entry.depth is None else entry.depth
        movable.append(_Movable(f"lore:{ident}", segment, depth, entry.order, ident in moving))
    head = [*bos, *before, *memory, *constants, *so_far, *request, *between]
    return head, tail, movable, dropped


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


# -- the text of the story, with its tokens ----------------------------------------------------------


class _Story:
    """The text of a path, which can be cut and opened at any place; places are characters from its start.

    Stored token ids are only sliced; text is tokenised only where no ids are known.
    """

    def __init__(self, path: Iterable[tuple[str, Sequence[Span]]], tokenizer: Tokenizer) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._tokenize = cache(tokenizer.tokenize)  # each cut that is tried needs much of the same text
        self._token_starts = cache(partial(_token_starts, tokenizer))
        self._runs: list[Segment] = []
        self._nodes: dict[str, tuple[int, int]] = {}
        at = 0
        for node, spans in path:
            begin = at
            for span in spans:
                self._add(node, span)
                at += len(span.text)
            if at > begin:
                self._nodes[node] = begin, at
        self._places = list(accumulate((len(run.text) for run in self._runs), initial=0))
        self.text = "".join(run.text for run in self._runs)

    def _add(self, node: str, span: Span) -> None:
        """Add a span. Tokens that reach back into a text before that is another one now become text."""
        if not (span.text and span.ids and span.vocab and span.vocab == self._vocabulary):
            self._runs += [Segment("story", span.text, (), node)] if span.text else []
            return
        lead, run = len(span.lead), Segment("story", span.lead + span.text, span.ids, node, True)
        before = self._runs[-1] if lead and self._runs else None
        edge = len(before.text) - lead if before else 0
        if before and before.text.endswith(span.lead) and self._opens(before, edge):
            self._runs[-1:] = self._slice(before, 0, edge)
            lead = 0
        self._runs += self._slice(run, lead, len(run.text))

    def _opens(self, run: Segment, at: int) -> bool:
        """Return whether no stored token of ``run`` is on both sides of its character ``at``."""
        if not run.stored or at == 0:
            return True
        starts = self._token_starts(run.text, run.tokens)
        place = bisect_left(starts, at)
        return place < len(starts) and starts[place] == at

    def _slice(self, run: Segment, first: int, last: int) -> list[Segment]:
        """Return the part of ``run`` between two characters; what is left of a token cut there is text."""
        first, last, size = max(first, 0), min(last, len(run.text)), len(run.text)
        if (first, last) == (0, size):
            return [run]
        parts = [(first, last, ())]
        starts = self._token_starts(run.text, run.tokens) if run.stored else []
        if len(starts) > 1:
            begin, end = bisect_left(starts, first), len(starts)
            if last < size:
                end = bisect_left(starts, starts[bisect_right(starts, last) - 1])
            if begin < end:
                low, high = starts[begin], [*starts, size][end]
                parts = [(first, low, ()), (low, high, run.tokens[begin:end]), (high, last, ())]
        return [Segment("story", run.text[a:b], ids, run.ident, bool(ids)) for a, b, ids in parts if a < b]

    def segments(self, start: int, end: int) -> list[Segment]:
        """Return the text from ``start`` to ``end`` as story segments, with stored ids where known."""
        first, last = max(bisect_right(self._places, start) - 1, 0), bisect_left(self._places, end)
        around = zip(self._runs[first:last], self._places[first:last], strict=True)
        parts = [part for run, at in around for part in self._slice(run, start - at, end - at)]
        found: list[Segment] = []
        for stored, some in groupby(parts, key=lambda part: part.stored):
            runs = list(some)
            if not stored:
                text = "".join(run.text for run in runs)
                runs = [Segment("story", text, tuple(self._tokenize(text)), runs[0].ident)]
            found += runs
        return found

    def size(self, start: int) -> int:
        """Return how many tokens the text from ``start`` on has."""
        return _size(self.segments(start, len(self.text)))

    def opens(self, at: int) -> bool:
        """Return whether the text can be opened at ``at`` without breaking a stored token."""
        index = bisect_right(self._places, at) - 1
        return index == len(self._runs) or self._opens(self._runs[index], at - self._places[index])

    def from_end(self, tokens: int) -> int:
        """Return the first token start with at most ``tokens`` tokens up to the end."""
        end = len(self.text)
        for segment in reversed(self.segments(max(0, end - tokens * _MOST_CHARS), end)):
            start, size = end - len(segment.text), len(segment.tokens)
            if size > tokens:
                starts = [*self._token_starts(segment.text, segment.tokens), len(segment.text)]
                guess = len(segment.text) * (size - tokens) // size
                return start + (starts[size - tokens] if len(starts) > size else guess)
            tokens, end = tokens - size, start
        return end

    def position(self, at: int) -> Position:
        """Return ``at`` as a position that a later path can find."""
        for node, (begin, end) in reversed(self._nodes.items()):
            if begin <= at:
                return Position(node, min(at, end) - begin)
        return Position("", 0)

    def find(self, position: Position) -> int | None:
        """Return the place of ``position``, ``None`` if it is not on the path."""
        begin, end = self._nodes.get(position.node_id, (0, -1))
        return begin + position.offset if begin + position.offset <= end else None

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


def _token_starts(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> list[int]:
    """Return the character at which each token starts; only 0 if the bytes of the tokens are not the text.

    They are not after byte repair or with an added space. A token that starts inside a character gets the
    place of that character.
    """
    pieces = tokenizer.pieces(ids)
    if b"".join(pieces) != text.encode("utf-8", "surrogatepass"):
        return [0]
    sizes = [sum(byte & 0xC0 != 0x80 for byte in piece) for piece in pieces]  # characters that begin in each
    ends = accumulate(sizes, initial=0)
    return [at - (0x80 <= piece[0] < 0xC0 if piece else 0) for at, piece in zip(ends, pieces, strict=False)]


# -- where the story begins in the window, and what stands in it --------------------------------------


def _cuts(story: _Story, room: int, old: int | None) -> Iterator[int]:
    """Yield the places where the story may begin in the window, the old one first, then the longest."""
    if old and story.size(old) >= KEEP_OLD_CUT * room:
        yield old
    if len(story.text) <= max(room, 0) * _MOST_CHARS:
        yield 0
    for share in _SHARES:
        most = max(int(share * room), 0)
        yield _cut_at(story, most, int(most * KEEP_AT_LEAST / KEEP_AFTER_CUT))


def _cut_at(story: _Story, most: int, least: int) -> int:
    """Return a cut, preferably at a paragraph, that leaves at most ``most`` tokens, if possible ``least``."""
    first, last = story.from_end(most), story.from_end(least)
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        for match in boundary.finditer(story.text, max(first - 1, 0), last):
            for at in (match.end(), match.start()):
                if first <= at <= last and story.opens(at):
                    return at
    return first


def _settle(
    items: Sequence[_Movable], story: _Story, cut: int, anchors: Mapping[str, Position], drift: int
) -> dict[str, int]:
    """Return the place of every item in the story, by key.

    An item near the end of a story breaks the cached prefix whenever it moves. So it keeps its place
    (``anchors``) while the story grows past it, by up to ``drift`` characters. The items behind a break then
    move too, since that costs nothing more.
    """
    kept, ideals, moving = dict[str, int](), dict[str, int](), set[str]()
    for item in items:
        ideal = story.line_start(max(item.depth, 1), cut)
        old = story.find(anchors[item.key]) if item.key in anchors else None
        if item.wanted:
            ideals[item.key] = ideal
        if old is None or old < cut or not story.opens(old):
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
    for boundary in (_SENTENCE_END, _WORD_END):
        for match in boundary.finditer(text, max(end - NEAR_END, 0), end):
            for offset in (match.end(), match.start()):
                if opens(offset):
                    return offset
    return len(text)


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
