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
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeAlias

import regex

from srbwriter.story.lore import scan
from srbwriter.story.model import Span, StorySettings, Template

Source = Literal["bos", "template", "memory", "lore", "so far", "request", "note", "wish", "story"]
"""The kind of a part of the prompt."""

Layout: TypeAlias = "Mapping[str, tuple[str, int]]"
"""The places that stay the same from one assembly to the next so that the cached prefix survives: each a node
and a character in it. ``cut`` is where the story begins in the window (missing: at its beginning), ``note``
and ``lore:<id>`` are what stands in it. Pass back the layout of the nearest node up the path that has one; a
place that is no longer on the path is ignored."""

STORY_SHARE = 4  # denominator of the least share of the window for the story; notes and lore are cut first
SMALLEST_STORY = 16  # fewest tokens of story in a usable window
DEFAULT_NOTE_DEPTH = 3  # lines from the end; the custom of Kobold and mikupad
DEFAULT_LORE_DEPTH = 12  # lines from the end for triggered entries: near the end, but not at it

# Shares of the story's room. What a new cut leaves free is filled until the next cut.
KEEP_AFTER_CUT = 0.75  # of it is filled after a new cut
KEEP_AT_LEAST = 0.5  # of it stays filled, at least, where that lets the cut be at the end of a paragraph
KEEP_OLD_CUT = 0.25  # an old cut that leaves less is replaced, if there is more story
DRIFT = (
    0.3  # the story may grow so far past a note before the note follows: a new cut comes first, moves both
)

NEAR_END = 400  # characters of the story, at most, that follow a wish

_BOUNDARIES = tuple(
    map(regex.compile, (r"\n+", r"(?<=[.!?…][\"'”’»)\]]*)\s+", r"\s+"))  # paragraphs, sentences, words
)


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


class Window(NamedTuple):
    """The model's window: ``n_ctx`` tokens, of which ``reserve`` stay free for generated text.

    ``bos`` are the ids that the model needs at the very start.
    """

    n_ctx: int
    reserve: int
    bos: Sequence[int] = ()

    @property
    def available(self) -> int:
        return self.n_ctx - self.reserve


class Segment(NamedTuple):
    """A run of the prompt. ``stored``: its tokens are those that the story keeps, and not made just now."""

    source: Source
    text: str
    tokens: tuple[int, ...] = ()
    stored: bool = False


class Assembly(NamedTuple):
    """A prompt, its parts in order, the text without room, and which lorebook keys could not be tried.

    Of the story everything before the cut has no room.
    """

    segments: tuple[Segment, ...]
    tokens: tuple[int, ...]
    dropped: tuple[Segment, ...]
    layout: Layout
    problems: tuple[str, ...] = ()


class _Part(NamedTuple):
    """A text of the settings: its name in the layout, and how many lines from the end of the story it stands
    (None: before the story).

    Parts of the lowest ``rank`` get room first. A lore entry has ``most`` tokens, whole or not at all.
    """

    key: str
    source: Source
    text: str | None
    depth: int | None
    rank: tuple[int, int]
    most: int | None = None


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
    far, active lore (first constant, then of higher order), and lore that may stay where it stands.
    """
    story, old = _Story(path, tokenizer, window.available), layout or {}

    def segments(source: Source, text: str) -> list[Segment]:
        tokenize = tokenizer.tokenize_template if source == "template" else None
        return [Segment(source, text, tuple((tokenize or tokenizer.tokenize)(text)))] if text else []

    # What there is, in the order of the prompt.
    active, problems = scan(settings.lore, story.text, scan_depth=settings.scan_depth)
    called = {entry.id for entry in active}
    note_depth = settings.author_note_depth
    parts = [_Part("memory", "memory", settings.memory, None, (1, 0))]
    for entry in sorted(settings.lore, key=lambda entry: entry.order):
        key, depth, most = f"lore:{entry.id}", entry.depth, entry.token_budget
        if entry.id in called or (entry.enabled and key in old):
            rank = 5 if entry.id not in called else 3 if entry.constant and depth is None else 4
            depth = DEFAULT_LORE_DEPTH if depth is None and rank != 3 else depth
            most = window.n_ctx if most is None else most
            parts.append(_Part(key, "lore", entry.text, depth, (rank, -entry.order), most))
    parts.append(_Part("so far", "so far", settings.so_far, None, (2, 0)))
    note_depth = DEFAULT_NOTE_DEPTH if note_depth is None else note_depth
    parts.append(_Part("note", "note", settings.author_note, note_depth, (0, 0)))

    # What of it has room.
    template = settings.template or Template()
    texts = template.before, template.between, template.after
    before, between, after = (segments("template", text) for text in texts)
    follows = any(part.text for part in parts if part.depth is None)
    request = segments("request", "\n" * follows + template.request) if template.request else []
    room = window.available - len(window.bos) - _size([*before, *between, *after, *request, *wish])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {window.n_ctx} tokens, {window.reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    free = room - max(room // STORY_SHARE, SMALLEST_STORY)
    for_lore = window.n_ctx if settings.lore_budget is None else settings.lore_budget
    fitted, dropped = dict[str, list[Segment]](), list[Segment]()
    for key, source, text, _, (rank, _), most in sorted(parts, key=lambda part: part.rank):
        text = f"{text}\n" if text and not text.endswith("\n") else text or ""
        fitted[key] = segments(source, text)
        if _size(fitted[key]) > (limit := free if most is None else most):  # what fits of it, up to a word
            ends = [0, *(match.end() for match in _BOUNDARIES[-1].finditer(text))]
            fits = bisect_right(ends, limit, key=lambda end: len(tokenizer.tokenize(text[:end])))
            fitted[key] = segments(source, text[: ends[max(fits - 1, 0)]])
        if most is not None:
            fitted[key] = fitted[key] if _size(fitted[key]) <= min(free, for_lore) else []
            for_lore -= _size(fitted[key])
        free -= _size(fitted[key])
        if rank < 5 and (rest := text[sum(len(segment.text) for segment in fitted[key]) :]):
            dropped.append(Segment(source, rest))

    # Where it stands, and where the story begins.
    stable = [segment for part in parts if part.depth is None for segment in fitted[part.key]]
    movable = [part for part in parts if part.depth is not None and fitted[part.key]]
    room -= _size(stable)
    before_cut = story.find(old.get("cut"))
    cut = _cut(story, max(room - sum(_size(fitted[part.key]) for part in movable), 0), before_cut)
    drift = int(DRIFT * room * (len(story.text) - cut) / max(story.size(cut), 1))  # in characters
    places = _settle(movable, story, cut, old if cut == (before_cut or 0) else {}, drift)
    inserted = [(places[part.key], fitted[part.key]) for part in movable if part.key in places]
    if wish:
        inserted.append((max(place_near_end(story.text, story.opens), cut), [*wish]))
    inserted.sort(key=lambda pair: pair[0])
    bos = [Segment("bos", "", tuple(window.bos))] if window.bos else []
    laid, start = [*bos, *before, *stable, *request, *between], cut
    for at, some in [*inserted, (len(story.text), after)]:
        laid += [*story.segments(start, at), *some]
        start = at
    if cut:
        places = {"cut": cut, **places}
        dropped.append(Segment("story", story.text[:cut]))
    tokens = tuple(token for segment in laid for token in segment.tokens)
    kept = {key: story.position(at) for key, at in places.items()}
    return Assembly(tuple(laid), tokens, tuple(dropped), kept, tuple(problems))


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


# -- the text of the story, with its tokens ----------------------------------------------------------


class _Story:
    """The text of a path, and the tokens of its end: more than ``most``, or all, and where each begins.

    Token ids that are stored are only sliced; any other run of text is tokenised for itself.
    """

    def __init__(self, path: Iterable[tuple[str, Sequence[Span]]], tokenizer: Tokenizer, most: int) -> None:
        self._tokenizer = tokenizer
        self._nodes: dict[str, tuple[int, int]] = {}
        spans: list[tuple[int, Span]] = []
        end = 0
        for node, some in path:
            begin = end
            for span in some:
                spans += [(end, span)] if span.text else []
                end += len(span.text)
            self._nodes[node] = begin, end
        self.text = "".join(span.text for _, span in spans)
        self._ids, self._runs = list[int](), list[tuple[int, bool]]()
        self._places = [end]  # of the tokens, and where the last one ends
        while spans and len(self._ids) <= most:
            at, span = spans.pop()
            ids, places = self._stored(at, span)
            # The tokens begin before the text if they can take over its end.
            lead, start = at - len(span.lead), at
            if lead < at and ids and spans and spans[-1][0] <= lead and self.text.startswith(span.lead, lead):
                before = self._stored(*spans[-1])[1]
                start = lead if lead in before or not before else at
            first, last = bisect_left(places, start), bisect_left(places, end)
            split = places[first] if first < last else end
            self._put(split, ids[first:last], places[first:last], True)
            self._put_typed(start, split)
            end = start

    def _put(self, at: int, ids: Sequence[int], places: Sequence[int], stored: bool) -> None:
        if ids:
            self._ids[:0], self._places[:0], self._runs[:0] = ids, places, [(at, stored)]

    def _put_typed(self, start: int, end: int) -> None:
        """Put tokens made just now; where their bytes are not the text, each line for itself."""
        text = self.text[start:end]
        ids, lines = self._tokenizer.tokenize(text) if text else (), text.splitlines(keepends=True)
        places = self._starts(start, text, ids)
        if places is None and len(lines) > 1:
            for line in reversed(lines):
                self._put_typed(end - len(line), end)
                end -= len(line)
        else:
            self._put(start, ids, places or [start] * len(ids), False)

    def _stored(self, at: int, span: Span) -> tuple[Sequence[int], Sequence[int]]:
        """Return the stored tokens of the span at ``at``, and where they begin; those whose bytes are not the
        text, as after byte repair, cannot be parted."""
        if not span.ids or not span.vocab or span.vocab != self._tokenizer.vocabulary:
            return (), ()
        begin = at - len(span.lead)
        return span.ids, self._starts(begin, span.lead + span.text, span.ids) or [begin] * len(span.ids)

    def _starts(self, at: int, text: str, ids: Sequence[int]) -> list[int] | None:
        """Return the character at which each token of the text at ``at`` begins, None if that is unknown.

        One that begins inside a character has the place of that character.
        """
        pieces = self._tokenizer.pieces(ids)
        if b"".join(pieces) != text.encode("utf-8", "surrogatepass"):
            return None
        begun = accumulate((sum(byte & 0xC0 != 0x80 for byte in piece) for piece in pieces), initial=at)
        inside = (piece != b"" and piece[0] & 0xC0 == 0x80 for piece in pieces)
        return [min(place - within, at + len(text) - 1) for place, within in zip(begun, inside, strict=False)]

    def segments(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the text from ``start`` to ``end`` as story segments."""
        for (low, stored), (high, _) in pairwise([*self._runs, (len(self.text), False)]):
            low, high = max(low, start), min(high, end)
            if low < high:
                tokens = self._ids[bisect_left(self._places, low) : bisect_left(self._places, high)]
                yield Segment("story", self.text[low:high], tuple(tokens), stored)

    def size(self, start: int) -> int:
        """Return how many tokens the text from ``start`` on has."""
        return len(self._ids) - bisect_left(self._places, start)

    def opens(self, at: int) -> bool:
        """Return whether the text can be opened at ``at`` without breaking a token."""
        return self._places[bisect_left(self._places, at)] == at

    def from_end(self, tokens: int) -> int:
        """Return the first place that opens and has at most ``tokens`` tokens behind it."""
        first = max(len(self._ids) - tokens, 0)
        while first and self._places[first] == self._places[first - 1]:
            first += 1
        return self._places[first] if first else 0

    def position(self, at: int) -> tuple[str, int]:
        """Return ``at`` as a node and a character in it, which a later path can find."""
        found = ((node, at - begin) for node, (begin, _) in reversed(self._nodes.items()) if begin <= at)
        return next(found, ("", 0))

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
    for boundary in _BOUNDARIES:
        for match in boundary.finditer(text, max(first - 1, 0), last):
            yield from (at for at in (match.end(), match.start()) if first <= at <= last and opens(at))


def place_near_end(text: str, opens: Callable[[int], bool] = lambda _: True) -> int:
    """Return the offset of the last line of ``text``; of a sentence or a word in it if that line is long.

    Only where ``opens`` allows a cut; otherwise the end of ``text``.
    """
    end = len(text.rstrip())
    line = text.rfind("\n", 0, end) + 1
    if line >= end - NEAR_END and opens(line):
        return line
    return next(_boundaries(text, max(end - NEAR_END, 0), end, opens), len(text))


def _settle(parts: Iterable[_Part], story: _Story, cut: int, anchors: Layout, drift: int) -> dict[str, int]:
    """Return the place of every part in the story, by key.

    A part near the end of a story breaks the cached prefix whenever it moves. So it keeps its place
    (``anchors``) while the story grows past it, by up to ``drift`` characters. The parts behind a break then
    move too, since that costs nothing more; lore that is not active any more goes.
    """
    last_line, break_at = story.line_start(1, cut), len(story.text) + 1
    kept, ideals = dict[str, int](), dict[str, int]()
    for part in parts:
        key, ideal = part.key, story.line_start(max(part.depth or 0, 1), cut)
        if part.rank[0] < 5:
            ideals[key] = ideal
        at = story.find(anchors.get(key))
        if at is not None and at >= cut:
            kept[key] = at
            if ideal - drift <= at <= max(ideal, last_line):
                continue
        break_at = min(break_at, kept.get(key, break_at), ideals.get(key, break_at))
    return ideals | {key: at for key, at in kept.items() if at < break_at}
