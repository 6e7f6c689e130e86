"""Context assembly: the tokens of a prompt, with an account by source.

The order is: BOS, template, memory, constant lore, the story so far, request and the rest of the template,
then the story from the cut on, with note and triggered lore anchored inside it.  Parts that change least come
first, and movable parts keep their places, so that most prompts continue the previous one.  A wish, which is
for one prompt only, is put near the end.

:func:`assemble` is pure.  What must stay put between prompts is a :data:`Layout`, returned and passed back
in; keep it on the node.  Offsets into text are in characters, sizes in tokens.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Literal, NamedTuple, TypeAlias, cast

import regex

from srbwriter.story.model import LoreEntry, Span, StorySettings, Template, TokenSizes
from srbwriter.story.spans import part_of, text_of
from srbwriter.unspaced import CHARACTERS

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
DEFAULT_SCAN_DEPTH = 4000  # characters from the end of the story that are searched for keys of lore
DEFAULT_LORE_DEPTH = 12  # lines from the end for triggered entries: near the end, but not at it

# Shares of the story's room:
KEEP_AFTER_CUT = 0.7  # is filled after a new cut; the rest is free until the next one
KEEP_AT_LEAST = 0.5  # stays filled, at least, where that lets the cut be at the end of a paragraph
KEEP_OLD_CUT = 0.25  # an old cut that leaves less is replaced, if there is more story
DRIFT = 0.36  # the story grows so far past a note before that follows: a new cut comes first, and moves both

NEAR_END = 400  # characters of the story, at most, that follow a wish

# Imported regular expressions are not trusted.
SEARCH_SECONDS = 0.05  # longest time for one of them
MAX_EXPANSION = 10_000  # largest product of its counts {n}: the compiler writes them out

_LINE = regex.compile(r"(?<![^\n])[^\n]*\S")  # that is not blank
_WORD_END = regex.compile(r"\s+")
_BOUNDARIES = regex.compile(r"\n+"), regex.compile(r"(?<=[.!?…][\"'”’»)\]]*)\s+"), _WORD_END

_PATTERN = regex.compile(r"/(.+)/([gimsuyv]*)", regex.DOTALL)  # with the flags of JavaScript
_COUNT = regex.compile(r"\{0*([1-9]\d*)(?:,\d*)?\}")
_KEY = regex.compile(r"\s*+(/(?:[^/\\]|\\.)+/[a-z]*(?=\s*(?:,|\Z))|(?:\\,|[^,])*)", regex.DOTALL)
# A word can begin and end anywhere beside a script without spaces.
_BEGIN = rf"(?:(?<![^\W{CHARACTERS}])|(?=[{CHARACTERS}]))"
_END = rf"(?:(?![^\W{CHARACTERS}])|(?<=[{CHARACTERS}]))"


class ContextError(ValueError):
    """The window cannot hold the required parts; the message names the cure."""


class Segment(NamedTuple):
    """A run of the prompt. ``stored``: its tokens are those that the story keeps, and not made just now."""

    source: Source
    text: str
    tokens: tuple[int, ...] = ()
    stored: bool = False


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """A vocabulary as functions.

    ``tokenize`` turns text into ids and adds nothing (no BOS, no EOS, no leading space);
    ``tokenize_template`` is for template text, where names of special tokens mean those tokens.
    ``vocabulary`` is the fingerprint ids are stored with, ``bos`` what the model needs at the very start.
    """

    tokenize: Callable[[str], Sequence[int]]
    tokenize_template: Callable[[str], Sequence[int]]
    sizes: TokenSizes
    vocabulary: str = ""
    bos: tuple[int, ...] = ()

    def segment(self, source: Source, text: str) -> Segment:
        """Return ``text`` with its tokens."""
        tokenize = self.tokenize_template if source == "template" else self.tokenize
        return Segment(source, text, tuple(tokenize(text)) if text else ())


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

    A span's ids are used if they are of the tokenizer's vocabulary; those within its lead only if that is
    still the end of text without ids. ``settings`` are the effective ones at the end of the path. ``layout``
    is that of an earlier assembly; it changes only the places of the texts. ``wish`` is put near the end of
    the story and moves nothing else. Of the window's ``n_ctx`` tokens, ``reserve`` stay free.
    Raises :class:`ContextError` for a window too small.

    Room is given to template and request first, then to the note, the memory, what was told of the story so
    far, active lore (first constant, then of higher order), and lore that may stay where it stands.
    """
    story = _Story(path, tokenizer, n_ctx - reserve)
    old = story.places(layout or {})

    # What there is: all of it as lore, which stands before the story, or some lines from its end.
    called, problems = scan(settings.lore, story.text, settings.scan_depth)
    memory = LoreEntry("memory", text=settings.memory or "")
    so_far = LoreEntry("so far", text=settings.so_far or "")
    depth = DEFAULT_NOTE_DEPTH if settings.author_note_depth is None else settings.author_note_depth
    note = LoreEntry("note", text=settings.author_note or "", depth=depth)
    lore: list[LoreEntry] = []
    for entry in sorted(settings.lore, key=lambda entry: entry.order):
        key, usual = f"lore:{entry.id}", None if entry.constant else DEFAULT_LORE_DEPTH
        depth = usual if entry.depth is None else entry.depth
        if entry.id in called or (entry.enabled and key in old):
            lore.append(replace(entry, id=key, enabled=entry.id in called, depth=depth))
    by_priority = sorted(lore, key=lambda entry: (not entry.enabled, entry.depth is not None, -entry.order))

    # What of it has room.
    template = settings.template or Template()
    texts = template.before, template.between, template.after
    before, between, after = (tokenizer.segment("template", text) for text in texts)
    follows = any(entry.text for entry in (memory, so_far, *lore) if entry.depth is None)
    request = tokenizer.segment("request", template.request and "\n" * follows + template.request)
    bos = Segment("bos", "", tokenizer.bos)
    room = n_ctx - reserve - _size([bos, before, between, after, request, *wish])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {n_ctx} tokens, {reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    free = room - max(room // STORY_SHARE, SMALLEST_STORY)
    fitted, dropped = dict[str, Segment](), list[Segment]()
    for entry in [note, memory, so_far, *by_priority]:
        source = cast("Source", entry.id.partition(":")[0])
        most = (entry.token_budget or n_ctx) if source == "lore" else free
        text = entry.text if entry.text.endswith("\n") or not entry.text else f"{entry.text}\n"
        found = tokenizer.segment(source, text)
        if len(found.tokens) > most:  # what fits of it, up to a word
            ends = [0, *(match.end() for match in _WORD_END.finditer(text))]
            fits = bisect_right(ends, most, key=lambda end: len(tokenizer.tokenize(text[:end])))
            found = tokenizer.segment(source, text[: ends[max(fits - 1, 0)]])
        if source == "lore":
            free = min(free, n_ctx if settings.lore_budget is None else settings.lore_budget)
            found = found if len(found.tokens) <= free else Segment(source, "")
        free -= len(found.tokens)
        fitted[entry.id] = found
        if entry.enabled and (rest := text[len(found.text) :]):
            dropped.append(Segment(source, rest))

    # Where it stands, and where the story begins.
    stable = [fitted[entry.id] for entry in (memory, *lore, so_far) if entry.depth is None]
    movable = [entry for entry in (*lore, note) if entry.depth is not None and fitted[entry.id].text]
    room -= _size(stable)
    cut = _cut(story, max(room - _size(fitted[entry.id] for entry in movable), 0), old.get("cut", 0))
    places = _settle(movable, story, cut, old if cut == old.get("cut", 0) else {}, DRIFT * room)
    inserted = [(at, [fitted[key]]) for key, at in places.items()]
    if wish:
        inserted.append((max(place_near_end(story.text, story.opens), cut), [*wish]))
    inserted.sort(key=lambda pair: pair[0])
    laid, start = [bos, before, *stable, request, between], cut
    for at, some in [*inserted, (len(story.text), [after])]:
        laid += [*story.segments(start, at), *some]
        start = at
    laid = [segment for segment in laid if segment.tokens]
    if cut:
        places = {"cut": cut, **places}
        dropped.append(Segment("story", story.text[:cut]))
    tokens = tuple(token for segment in laid for token in segment.tokens)
    return Assembly(tuple(laid), tokens, tuple(dropped), story.layout(places), tuple(problems))


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


# -- the text of the story, with its tokens ----------------------------------------------------------


class _Story:
    """The text of a path, and the tokens of its end: more than ``most``, or all, and where each begins.

    Token ids that are stored are only sliced; any other run of text is tokenised for itself. Stored ones that
    begin with the end of typed text take that over. A token that begins inside a character has its place.
    """

    def __init__(self, path: Iterable[tuple[str, Sequence[Span]]], tokenizer: Tokenizer, most: int) -> None:
        def keeps(span: Span) -> bool:
            return bool(span.ids) and span.vocab == tokenizer.vocabulary != ""

        self._nodes, spans, end = {"": 0}, [Span("", "writer")], 0
        for node, own in path:
            self._nodes[node], end = end, end + len(text_of(own))
            for span in own:
                if span.lead and (keeps(spans[-1]) or not spans[-1].text.endswith(span.lead)):
                    whole = replace(span, text=span.lead + span.text, lead="")  # the text before has changed
                    spans += part_of((whole,), len(span.lead), len(whole.text), tokenizer.sizes)
                elif span.text:
                    spans.append(span)
        self.text = text_of(spans)
        self._ids, self._places = list[int](), [end]  # where each token begins, and where the last one ends
        self._runs = [(end, False)]  # where each begins, and whether its tokens are stored
        for span in reversed(spans[1:]):
            if len(self._ids) > most:
                break
            end -= len(span.text)
            stored, stop = keeps(span), self._runs[0][0]
            start = end - len(span.lead) * stored
            ids = span.ids if stored else tokenizer.tokenize(self.text[start:stop])
            places = [*accumulate(tokenizer.sizes(tokenizer.vocabulary, ids) or (), initial=start)]
            if places.pop() != stop:  # the text cannot be parted
                places = [start] * len(ids)
            self._ids[:0], self._places[:0] = ids, [min(at, stop - 1) for at in places]
            self._runs.insert(0, (start, stored))
        self.opens = set(self._places).__contains__
        """Whether the text can be opened at a place without breaking a token."""

    def segments(self, start: int, end: int) -> Iterator[Segment]:
        """Yield the text from ``start`` to ``end`` as story segments."""
        for (low, stored), (high, _) in pairwise(self._runs):
            low, high = max(low, start), min(high, end)
            if low < high:
                tokens = self._ids[bisect_left(self._places, low) : bisect_left(self._places, high)]
                yield Segment("story", self.text[low:high], tuple(tokens), stored)

    def size(self, start: int) -> int:
        """Return how many tokens the text from ``start`` on has."""
        return len(self._ids) - bisect_left(self._places, start)

    def from_end(self, tokens: int) -> int:
        """Return the first place that opens and has at most ``tokens`` tokens behind it."""
        first = max(len(self._ids) - tokens, 0)
        return next(at for at in self._places[first:] if self.size(at) <= tokens) if first else 0

    def layout(self, places: Mapping[str, int]) -> Layout:
        """Return places as characters in the last node that begins there, which a later path can find."""
        nodes = self._nodes.items()
        return {key: (node, at - begin) for key, at in places.items() for node, begin in nodes if begin <= at}

    def places(self, layout: Layout) -> dict[str, int]:
        """The inverse of :meth:`layout`, without places that are not on the path or inside a token now."""
        found = {key: self._nodes[node] + at for key, (node, at) in layout.items() if node in self._nodes}
        return {key: at for key, at in found.items() if self.opens(at)}


# -- where the story begins in the window, and what stands in it --------------------------------------


def _cut(story: _Story, room: int, old: int) -> int:
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
    entries: Iterable[LoreEntry], story: _Story, cut: int, old: Mapping[str, int], drift: float
) -> dict[str, int]:
    """Return the place of every entry in the story, by id.

    An entry near the end of a story breaks the cached prefix whenever it moves. So all keep their ``old``
    places while the story grows past them, by up to ``drift`` tokens. When one is new or has to move, all are
    placed anew, and lore that was not called again goes.
    """
    lines = [cut, *(line.start() for line in _LINE.finditer(story.text, cut))]
    ideals = {e.id: next(filter(story.opens, lines[-max(e.depth or 1, 1) :: -1]), cut) for e in entries}
    if all(
        key in old and old[key] <= lines[-1] and story.size(old[key]) <= story.size(ideal) + drift
        for key, ideal in ideals.items()
    ):
        return {key: old[key] for key in ideals}
    return {entry.id: ideals[entry.id] for entry in entries if entry.enabled}


# -- which lore a text calls for ----------------------------------------------------------------------


def scan(entries: list[LoreEntry], text: str, scan_depth: int | None = None) -> tuple[set[str], list[str]]:
    """Return the ids of the entries that the end of ``text`` activates, and what was wrong with keys.

    ``scan_depth`` is how many characters of it are searched for entries that do not say that. A bad or slow
    key counts as not matching.
    """
    usual = DEFAULT_SCAN_DEPTH if scan_depth is None else scan_depth
    problems = list[str]()

    def occurs(key: str, entry: LoreEntry) -> bool:
        depth = usual if entry.scan_depth is None else entry.scan_depth
        end = text[max(len(text) - depth, 0) :]
        try:
            pattern = _compile_key(key, entry)
            return pattern.search(end, timeout=SEARCH_SECONDS, concurrent=False) is not None
        except (ValueError, regex.error, RecursionError, OverflowError, MemoryError, TimeoutError) as error:
            name = entry.name or "an entry"
            problems.append(f"the key {key} of {name} in the lorebook was left out: {error}")
        return False

    active = {
        entry.id
        for entry in entries
        if entry.enabled and entry.text
        and (entry.constant or any(key.strip() and occurs(key, entry) for key in entry.keys))
    }  # fmt: skip
    return active, problems


def keys_from(line: str) -> list[str]:
    """Split a line of keys at commas, except commas behind a backslash or in a pattern."""
    return [key.strip().replace(r"\,", ",") for key in _KEY.findall(line) if key.strip()]


def keys_text(keys: Iterable[str]) -> str:
    """The inverse of :func:`keys_from`."""
    return ", ".join(key if keys_from(key) == [key] else key.replace(",", r"\,") for key in keys)


def _compile_key(key: str, entry: LoreEntry) -> regex.Pattern[str]:
    """Compile a key of ``entry``. Raises ValueError, regex.error or what the compiler has no room for."""
    if found := _PATTERN.fullmatch(key):
        if math.prod(map(int, _COUNT.findall(found[1]))) > MAX_EXPANSION:
            raise ValueError(f"its counts multiply to more than {MAX_EXPANSION} steps")
        flags = sum(regex.RegexFlag[flag] for flag in {"I", "M", "S"} & {*found[2].upper()})
        return regex.compile(found[1].replace(r"\/", "/"), flags | regex.VERSION0)
    pattern = regex.escape(key.strip())
    pattern = f"{_BEGIN}{pattern}{_END}" if entry.whole_words else pattern
    return regex.compile(pattern, 0 if entry.case_sensitive else regex.IGNORECASE | regex.FULLCASE)
