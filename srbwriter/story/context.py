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
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeAlias, cast

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

STORY_SHARE = 4  # denominator of the least share of the window for the story; notes and lore are cut first
SMALLEST_STORY = 16  # fewest tokens of story in a usable window
DEFAULT_NOTE_DEPTH = 3  # lines from the end; the custom of Kobold and mikupad
DEFAULT_LORE_DEPTH = 12  # lines from the end for triggered entries: near the end, but not at it

# Shares of the story's room:
KEEP_AFTER_CUT = 0.7  # is filled after a new cut; the rest is free until the next one
KEEP_AT_LEAST = 0.5  # stays filled, at least, where that lets the cut be at the end of a paragraph
KEEP_OLD_CUT = 0.25  # an old cut that leaves less is replaced, if there is more story
DRIFT = 0.36  # the story grows so far past a note before that follows: a new cut comes first, and moves both

NEAR_END = 400  # characters of the story, at most, that follow a wish

_LINE = regex.compile(r"(?<![^\n])[^\n]*\S")  # that is not blank
_WORD_END = regex.compile(r"\s+")
_BOUNDARIES = regex.compile(r"\n+"), regex.compile(r"(?<=[.!?…][\"'”’»)\]]*)\s+"), _WORD_END


class ContextError(ValueError):
    """The window cannot hold the required parts; the message names the cure."""


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A vocabulary as functions.

    ``tokenize`` turns text into ids and adds nothing (no BOS, no EOS, no leading space);
    ``pieces`` gives the bytes of each id; ``vocabulary`` is the fingerprint ids are stored with.
    ``tokenize_template`` is for template text, where names of special tokens mean those tokens;
    without it ``tokenize`` is used. ``bos`` are the ids that the model needs at the very start.
    """

    tokenize: Callable[[str], Sequence[int]]
    pieces: Callable[[Sequence[int]], Sequence[bytes]]
    vocabulary: str = ""
    tokenize_template: Callable[[str], Sequence[int]] | None = None
    bos: tuple[int, ...] = ()


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


def assemble(
    path: Iterable[tuple[str, Sequence[Span]]],
    settings: StorySettings,
    tokenizer: Tokenizer,
    n_ctx: int,
    reserve: int,
    layout: Layout | None = None,
    wish: Sequence[Segment] = (),
) -> Assembly:
    """Lay out the prompt that continues ``path``: the last nodes of a story, each an id and its spans.

    A span's ids are used if they are of the tokenizer's vocabulary, and the text before still ends with its
    lead. ``settings`` are the effective ones at the end of the path.  ``layout`` is that of an earlier
    assembly; it changes only the places of the texts. ``wish`` is put near the end of the story and moves
    nothing else. Of the window's ``n_ctx`` tokens, ``reserve`` stay free. Raises :class:`ContextError` for a
    window too small.

    Room is given to template and request first, then to the note, the memory, what was told of the story so
    far, active lore (first constant, then of higher order), and lore that may stay where it stands.
    """
    story, old = _Story(path, tokenizer, n_ctx - reserve), layout or {}

    def segments(source: Source, text: str) -> list[Segment]:
        tokenize = tokenizer.tokenize_template if source == "template" else None
        return [Segment(source, text, tuple((tokenize or tokenizer.tokenize)(text)))] if text else []

    # What there is: all of it as lore, which stands before the story, or some lines from its end.
    active, problems = scan(settings.lore, story.text, scan_depth=settings.scan_depth)
    called = {"note", "memory", "so far", *(f"lore:{entry.id}" for entry in active)}
    memory = LoreEntry("memory", text=settings.memory or "")
    so_far = LoreEntry("so far", text=settings.so_far or "")
    depth = settings.author_note_depth
    note = LoreEntry(
        "note", text=settings.author_note or "", depth=DEFAULT_NOTE_DEPTH if depth is None else depth
    )
    lore: list[LoreEntry] = []
    for entry in sorted(settings.lore, key=lambda entry: entry.order):
        if (key := f"lore:{entry.id}") in called or (entry.enabled and key in old):
            usual = None if entry.constant else DEFAULT_LORE_DEPTH
            lore.append(replace(entry, id=key, depth=usual if entry.depth is None else entry.depth))
    by_priority = sorted(
        lore, key=lambda entry: (entry.id not in called, entry.depth is not None, -entry.order)
    )

    # What of it has room.
    template = settings.template or Template()
    texts = template.before, template.between, template.after
    before, between, after = (segments("template", text) for text in texts)
    follows = any(entry.text for entry in (memory, so_far, *lore) if entry.depth is None)
    request = segments("request", "\n" * follows + template.request) if template.request else []
    room = n_ctx - reserve - len(tokenizer.bos) - _size([*before, *between, *after, *request, *wish])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {n_ctx} tokens, {reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    free = room - max(room // STORY_SHARE, SMALLEST_STORY)
    for_lore = n_ctx if settings.lore_budget is None else settings.lore_budget
    fitted, dropped = dict[str, list[Segment]](), list[Segment]()
    for entry in [note, memory, so_far, *by_priority]:
        source, most = cast("Source", entry.id.partition(":")[0]), free
        if source == "lore":
            most = n_ctx if entry.token_budget is None else entry.token_budget
        text = entry.text if entry.text.endswith("\n") or not entry.text else f"{entry.text}\n"
        found = segments(source, text)
        if _size(found) > most:  # what fits of it, up to a word
            ends = [0, *(match.end() for match in _WORD_END.finditer(text))]
            fits = bisect_right(ends, most, key=lambda end: len(tokenizer.tokenize(text[:end])))
            found = segments(source, text[: ends[max(fits - 1, 0)]])
        if source == "lore":
            found = found if _size(found) <= min(free, for_lore) else []
            for_lore -= _size(found)
        free -= _size(found)
        fitted[entry.id] = found
        if entry.id in called and (rest := text[sum(len(segment.text) for segment in found) :]):
            dropped.append(Segment(source, rest))

    # Where it stands, and where the story begins.
    stable = [segment for e in (memory, *lore, so_far) if e.depth is None for segment in fitted[e.id]]
    movable = [entry for entry in (*lore, note) if entry.depth is not None and fitted[entry.id]]
    room -= _size(stable)
    before_cut = story.find(old.get("cut"))
    cut = _cut(story, max(room - sum(_size(fitted[entry.id]) for entry in movable), 0), before_cut)
    drift = int(DRIFT * room * (len(story.text) - cut) / max(story.size(cut), 1))  # in characters
    places = _settle(movable, called, story, cut, old if cut == (before_cut or 0) else {}, drift)
    inserted = [(places[entry.id], fitted[entry.id]) for entry in movable if entry.id in places]
    if wish:
        inserted.append((max(place_near_end(story.text, story.opens), cut), [*wish]))
    inserted.sort(key=lambda pair: pair[0])
    bos = [Segment("bos", "", tokenizer.bos)] if tokenizer.bos else []
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


class _Run(NamedTuple):
    """The tokens of a span, whose text is ``at`` a character, and the characters at which they begin."""

    at: int
    lead: str
    ids: Sequence[int]
    places: Sequence[int]
    stored: bool


class _Story:
    """The text of a path, and the tokens of its end: more than ``most``, or all, and where each begins.

    Token ids that are stored are only sliced; any other run of text is tokenised for itself. Stored ones that
    begin with the end of the text before take that over, where it is still the same and can be opened.
    """

    def __init__(self, path: Iterable[tuple[str, Sequence[Span]]], tokenizer: Tokenizer, most: int) -> None:
        self._tokenizer, self._nodes = tokenizer, dict[str, tuple[int, int]]()
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
        self._places = [end]  # where each token begins, and where the last one ends
        runs = (self._read(at, span) for at, span in reversed(spans))
        stop, run = end, next(runs, None)
        while run and len(self._ids) <= most:
            before, start = next(runs, None), run.at
            if end < stop and not run.stored:
                run = self._read_typed(start, end)
            lead = start - len(run.lead)
            if before and before.at <= lead and self.text.startswith(run.lead, lead):
                start = lead if lead in before.places or not before.stored else start
            first, last = bisect_left(run.places, start), bisect_left(run.places, end)
            split = run.places[first] if first < last else end
            kept = _Run(split, "", run.ids[first:last], run.places[first:last], run.stored)
            for some in (kept, self._read_typed(start, split)) if start < split else (kept,):
                self._ids[:0], self._places[:0] = some.ids, some.places
                self._runs.insert(0, (some.at, some.stored))
            stop, end, run = run.at, start, before

    def _read_typed(self, start: int, end: int) -> _Run:
        return self._read(start, Span(self.text[start:end], "writer"))

    def _read(self, at: int, span: Span) -> _Run:
        """Return the tokens of the span at ``at``: its own, or made just now.

        One that begins inside a character has the place of that character. Where the bytes of the tokens are
        not those of the text, as after byte repair, they cannot be parted.
        """
        stored = bool(span.ids) and span.vocab == self._tokenizer.vocabulary != ""
        lead = span.lead if stored else ""
        text, begin = lead + span.text, at - len(lead)
        ids = span.ids if stored else self._tokenizer.tokenize(text)
        pieces, places = self._tokenizer.pieces(ids), [begin] * len(ids)
        if b"".join(pieces) == text.encode("utf-8", "surrogatepass"):
            begun = accumulate(
                (sum(byte & 0xC0 != 0x80 for byte in piece) for piece in pieces), initial=begin
            )
            inside = (0x80 <= (*piece, 0)[0] < 0xC0 for piece in pieces)
            places = [min(at - into, begin + len(text) - 1) for at, into in zip(begun, inside, strict=False)]
        return _Run(at, lead, ids, places, stored)

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


def _settle(
    entries: Iterable[LoreEntry], called: set[str], story: _Story, cut: int, anchors: Layout, drift: int
) -> dict[str, int]:
    """Return the place of every entry in the story, by id.

    An entry near the end of a story breaks the cached prefix whenever it moves. So it keeps its place
    (``anchors``) while the story grows past it, by up to ``drift`` characters. Those behind a break then move
    too, since that costs nothing more; lore that was not called again goes.
    """
    lines = [line.start() for line in _LINE.finditer(story.text, cut)]

    def line_start(depth: int) -> int:
        return next(filter(story.opens, lines[-max(depth, 1) :: -1]), cut)

    break_at = len(story.text) + 1
    kept, ideals = dict[str, int](), dict[str, int]()
    for entry in entries:
        key, ideal = entry.id, line_start(entry.depth or 1)
        if key in called:
            ideals[key] = ideal
        at = story.find(anchors.get(key))
        if at is not None and at >= cut:
            kept[key] = at
            if ideal - drift <= at <= max(ideal, line_start(1)):
                continue
        break_at = min(break_at, kept.get(key, break_at), ideals.get(key, break_at))
    return ideals | {key: at for key, at in kept.items() if at < break_at}
