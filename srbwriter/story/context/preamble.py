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
    found, template = Preamble(), settings.template or Template()

    def part(source: Source, text: str, ident: str = "") -> list[Segment]:
        tokenize = tokenizer.tokenize_template if source == "template" else None
        return [Segment(source, text, tuple((tokenize or tokenizer.tokenize)(text)), ident)] if text else []

    def beginning(source: Source, text: str, most: int, ident: str = "") -> list[Segment]:
        """Return what fits of ``text``, in whole words, and record the rest as dropped."""
        kept = part(source, text, ident)
        if _size(kept) > most:
            ends = [match.end() for match in _WORD_END.finditer(text)]
            fit = bisect_right(ends, most, key=lambda end: len(tokenizer.tokenize(text[:end])))
            kept = part(source, text[: ends[fit - 1]], ident) if fit else []
        if rest := text[sum(len(segment.text) for segment in kept) :]:
            found.dropped.append(Dropped(source, rest, ident))
        return kept

    def lore(
        entries: Iterable[LoreEntry], room: int, complain: bool = True
    ) -> list[tuple[LoreEntry, Segment]]:
        """Return the entries that fit, in order; those of a higher order get room first."""
        chosen: list[tuple[LoreEntry, Segment]] = []
        for entry in sorted(entries, key=lambda entry: -entry.order):
            text, budget = _line(entry.text), entry.token_budget
            kept = (
                part("lore", text, entry.id) if budget is None else beginning("lore", text, budget, entry.id)
            )
            if kept and _size(kept) <= room:
                room -= _size(kept)
                chosen.append((entry, kept[0]))
            elif complain:
                found.dropped.append(Dropped("lore", entry.text, entry.id))
        return sorted(chosen, key=lambda pair: pair[0].order)

    before, between, found.tail = (
        part("template", text) for text in (template.before, template.between, template.after)
    )
    follows_text = bool(settings.memory or settings.so_far)
    follows_text = follows_text or any(is_stable(entry) and entry.text for entry in active)
    request = part("request", ("\n" if follows_text else "") + template.request) if template.request else []
    room = window.available - len(window.bos) - _size([*before, *between, *found.tail, *request])
    if room < SMALLEST_STORY:
        raise ContextError(
            f"of a window of {window.n_ctx} tokens, {window.reserve} are reserved for new text and"
            f" {max(room, 0)} are left for the story after the template: use a larger window, reserve less,"
            " or choose a shorter template or request"
        )
    room -= max(room // STORY_SHARE, SMALLEST_STORY)
    note = beginning("note", _line(settings.author_note or ""), max(room, 0))
    memory = beginning("memory", _line(settings.memory or ""), max(room - _size(note), 0))
    room -= _size(note) + _size(memory)
    so_far = beginning("so far", _line(settings.so_far or ""), max(room, 0))
    room -= _size(so_far)
    if settings.lore_budget is not None:
        room = min(room, settings.lore_budget)
    stable = lore((entry for entry in active if is_stable(entry)), room)
    room -= _size(segment for _, segment in stable)
    moving = lore((entry for entry in active if not is_stable(entry)), room)
    staying = lore(lingering, room - _size(segment for _, segment in moving), complain=False)

    bos = [Segment("bos", "", tuple(window.bos))] if window.bos else []
    found.head = [*bos, *before, *memory, *(segment for _, segment in stable), *so_far, *request, *between]
    for entry, segment in (*moving, *staying):
        depth = DEFAULT_LORE_DEPTH if entry.depth is None else entry.depth
        wanted = any(entry is one for one, _ in moving)
        found.movable.append(Movable(lore_key(entry), segment, depth, entry.order, wanted))
    depth = DEFAULT_NOTE_DEPTH if settings.author_note_depth is None else settings.author_note_depth
    found.movable += [Movable("note", segment, depth, 0) for segment in note]
    return found


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


def _line(text: str) -> str:
    """Return ``text`` as whole lines, so that the next text starts on a new line."""
    return text if not text or text.endswith("\n") else text + "\n"
