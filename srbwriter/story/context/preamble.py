"""The parts of a prompt that are not story, fitted into the window.

Everything here is decided before the story is tokenised, and without the places of the movable parts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import regex

from srbwriter.story.context.types import ContextError, Dropped, Segment, Source, Tokenizer, Window
from srbwriter.story.model import LoreEntry, Settings, Template

STORY_SHARE = 4
"""Denominator of the least share of the window for the story; notes and lore are shortened first."""

SMALLEST_STORY = 16
"""Fewest tokens of story in a usable window."""

DEFAULT_NOTE_DEPTH = 3
"""Lines from the end for an author's note without a depth; the custom of Kobold and mikupad."""

DEFAULT_LORE_DEPTH = 12
"""Lines from the end for a triggered entry without a depth: near the end, but not at it."""

_WORD_END = regex.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Movable:
    """A note or entry inside the story, ``depth`` lines from its end.

    ``wanted`` is false for an entry that is no longer activated; it may keep its place.
    """

    key: str
    segment: Segment
    depth: int
    order: int
    wanted: bool = True


@dataclass(slots=True)
class Preamble:
    """All parts but the story, fitted into the window."""

    head: list[Segment] = field(default_factory=list[Segment])
    tail: list[Segment] = field(default_factory=list[Segment])
    movable: list[Movable] = field(default_factory=list[Movable])
    dropped: list[Dropped] = field(default_factory=list[Dropped])


def lore_key(entry: LoreEntry) -> str:
    return f"lore:{entry.id}"


def is_stable(entry: LoreEntry) -> bool:
    """Whether an entry is placed beside the memory: constant, and without a depth."""
    return entry.constant and entry.depth is None


def fit_preamble(
    settings: Settings,
    active: Sequence[LoreEntry],
    lingering: Sequence[LoreEntry],
    tokenizer: Tokenizer,
    window: Window,
) -> Preamble:
    """Allot room to each part, by priority: template and request, note, memory, active lore, lingering lore.

    Raises :class:`ContextError` when the window cannot even hold template, request and a little story.
    """
    fitter = _Fitter(tokenizer, window)
    template = settings.template or Template()
    before, between, after = map(fitter.template, (template.before, template.between, template.after))
    follows_text = bool(settings.memory or settings.so_far)
    follows_text = follows_text or any(is_stable(entry) and entry.text for entry in active)
    request = fitter.request(template.request, "\n" if follows_text else "")
    fitter.begin_optional()
    note = fitter.cut_to_fit("note", settings.author_note or "")
    memory = fitter.cut_to_fit("memory", settings.memory or "")
    so_far = fitter.cut_to_fit("so far", settings.so_far or "")
    fitter.limit_lore(settings.lore_budget)
    stable = fitter.lore(entry for entry in active if is_stable(entry))
    moving = fitter.lore(entry for entry in active if not is_stable(entry))
    staying = fitter.lore(lingering, complain=False)

    found = Preamble(dropped=fitter.dropped)
    bos = [Segment("bos", "", tuple(window.bos))] if window.bos else []
    found.head = [*bos, *before, *memory, *(segment for _, segment in stable), *so_far, *request, *between]
    found.tail = after
    found.movable = [_movable(entry, segment, True) for entry, segment in moving]
    found.movable += [_movable(entry, segment, False) for entry, segment in staying]
    depth = DEFAULT_NOTE_DEPTH if settings.author_note_depth is None else settings.author_note_depth
    found.movable += [Movable("note", segment, depth, 0) for segment in note]
    return found


def _movable(entry: LoreEntry, segment: Segment, wanted: bool) -> Movable:
    depth = DEFAULT_LORE_DEPTH if entry.depth is None else entry.depth
    return Movable(lore_key(entry), segment, depth, entry.order, wanted)


class _Fitter:
    """Allots the room, and records texts without room."""

    def __init__(self, tokenizer: Tokenizer, window: Window) -> None:
        self.dropped: list[Dropped] = []
        self._tokenizer = tokenizer
        self._window = window
        self._room = window.available - len(window.bos)
        self._lore_room = 0

    def template(self, text: str) -> list[Segment]:
        """Add template text, which must fit as a whole."""
        if not text:
            return []
        tokenize = self._tokenizer.tokenize_template or self._tokenizer.tokenize
        tokens = tuple(tokenize(text))
        self._room -= len(tokens)
        return [Segment("template", text, tokens)]

    def request(self, text: str, separator: str) -> list[Segment]:
        """Add the request, which must fit as a whole, after ``separator``."""
        segments = self._segment("request", separator + text) if text else []
        self._room -= sum(len(segment.tokens) for segment in segments)
        return segments

    def begin_optional(self) -> None:
        """Keep the story's share free from here on."""
        if self._room < SMALLEST_STORY:
            raise ContextError(
                f"of a window of {self._window.n_ctx} tokens, {self._window.reserve} are reserved for new"
                f" text and {max(self._room, 0)} are left for the story after the template: use a larger"
                " window, reserve less, or choose a shorter template or request"
            )
        self._room -= max(self._room // STORY_SHARE, SMALLEST_STORY)

    def limit_lore(self, budget: int | None) -> None:
        self._lore_room = self._room if budget is None else min(self._room, budget)

    def cut_to_fit(self, source: Source, text: str) -> list[Segment]:
        """Return the beginning of ``text`` that fits, and record the rest as dropped."""
        segments = self._prefix(source, _line(text), max(self._room, 0))
        kept = "".join(segment.text for segment in segments)
        if rest := _line(text)[len(kept) :]:
            self.dropped.append(Dropped(source, rest))
        self._room -= sum(len(segment.tokens) for segment in segments)
        return segments

    def lore(self, entries: Iterable[LoreEntry], complain: bool = True) -> list[tuple[LoreEntry, Segment]]:
        """Return the entries that fit, in order; those of a higher order get room first."""
        chosen: list[tuple[LoreEntry, Segment]] = []
        for entry in sorted(entries, key=lambda entry: -entry.order):
            segments = self._entry(entry)
            size = sum(len(segment.tokens) for segment in segments)
            if segments and size <= self._lore_room:
                self._lore_room -= size
                chosen.append((entry, segments[0]))
            elif complain:
                self.dropped.append(Dropped("lore", entry.text, entry.id))
        return sorted(chosen, key=lambda pair: pair[0].order)

    def _entry(self, entry: LoreEntry) -> list[Segment]:
        if entry.token_budget is None:
            return self._segment("lore", _line(entry.text), entry.id)
        segments = self._prefix("lore", _line(entry.text), entry.token_budget, entry.id)
        kept = len(segments[0].text) if segments else 0
        if rest := _line(entry.text)[kept:]:
            self.dropped.append(Dropped("lore", rest, entry.id))
        return segments

    def _segment(self, source: Source, text: str, ident: str = "") -> list[Segment]:
        return [Segment(source, text, tuple(self._tokenizer.tokenize(text)), ident)] if text else []

    def _prefix(self, source: Source, text: str, room: int, ident: str = "") -> list[Segment]:
        """Return the longest beginning of ``text``, in whole words, of at most ``room`` tokens."""
        whole = self._segment(source, text, ident)
        if not whole or len(whole[0].tokens) <= room:
            return whole
        ends = [match.end() for match in _WORD_END.finditer(text)]
        fit = bisect_right(ends, room, key=lambda end: len(self._tokenizer.tokenize(text[:end])))
        return self._segment(source, text[: ends[fit - 1]], ident) if fit else []


def _line(text: str) -> str:
    """Return ``text`` as whole lines, so that the next text starts on a new line."""
    return text if not text or text.endswith("\n") else text + "\n"
