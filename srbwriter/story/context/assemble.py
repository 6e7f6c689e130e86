"""From a path and its settings to the exact tokens of a prompt.

The order is: BOS, template, memory, constant lore, then the story from the cut on, with note and
triggered lore anchored inside it.  What changes least comes first, and what can stay put does, so
that most prompts merely continue the one before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import regex

from srbwriter.story.context.anchors import place
from srbwriter.story.context.fixed import Fixed, Movable, fit_fixed, is_stable, lore_key
from srbwriter.story.context.strand import Strand, strand_of
from srbwriter.story.context.types import (
    Assembly,
    FellOut,
    Layout,
    Position,
    Run,
    Segment,
    Source,
    Tokenizer,
    Window,
)
from srbwriter.story.draft import LoreEntry, Settings
from srbwriter.story.lore import LoreScan, reach, scan

KEEP_AFTER_CUT = 0.75
"""Share of the story's room that a new cut leaves filled; the rest is what can be written until the next."""

KEEP_AT_LEAST = 0.5
"""A cut looks for the end of a paragraph no further than down to this share."""

KEEP_OLD_CUT = 0.25
"""An old cut that would leave less than this share, though there is more story, is given up."""

DRIFT = 0.3
"""Share of the story's room that the story may grow past a note before the note follows.

A little more than a cut frees: in a full window the next cut then comes first and moves both at once.
"""

_SHARES = (KEEP_AFTER_CUT, KEEP_AT_LEAST, 0.25, 0.1, 0.0)
_PARAGRAPH_END = regex.compile(r"\n+")
_SENTENCE_END = regex.compile(r"(?<=[.!?…][\"'”’»)\]]*)\s+")
_WORD_END = regex.compile(r"\s+")


def assemble(
    runs: Sequence[Run],
    settings: Settings,
    tokenizer: Tokenizer,
    window: Window,
    layout: Layout | None = None,
    previous: Sequence[int] = (),
) -> Assembly:
    """Lay out the prompt that continues the last of ``runs``.

    ``settings`` are the effective ones at the end of the path.  ``layout`` is that of the assembly
    this one should resemble, ``previous`` its tokens; neither changes which text is wanted, only where
    it stands.  Never exceeds ``window.available``.  Raises :class:`ContextError` for a window too small.
    """
    old = layout or Layout()
    found = scan(settings.lore, _tail(runs, settings), scan_depth=settings.scan_depth)
    fixed = fit_fixed(settings, found.active, _lingering(settings, found, old), tokenizer, window)
    room = window.available - _size(fixed.head) - _size(fixed.tail)
    for strand, afresh in _strands(runs, tokenizer, room - _movable_size(fixed), old.cut):
        places = place(fixed.movable, strand, old.anchors, drift=_drift(strand, room), afresh=afresh)
        story = _open(strand, fixed.movable, places)
        if _size(story) <= room:
            break
    else:  # the last strand is empty, and the movable parts are fitted, so this cannot happen
        raise AssertionError("an empty story did not fit")
    return _account(runs, fixed, story, strand, places, found, window, previous)


def cache_break(previous: Sequence[int], tokens: Sequence[int]) -> int:
    """How many tokens the two prompts share from the start."""
    shared = min(len(previous), len(tokens))
    return next((index for index in range(shared) if previous[index] != tokens[index]), shared)


def _tail(runs: Sequence[Run], settings: Settings) -> str:
    """As much of the end of the story as lore can look at."""
    texts: list[str] = []
    wanted = reach(settings.lore, settings.scan_depth)
    for run in reversed(runs):
        if wanted <= 0:
            break
        texts.append(run.text[-wanted:])
        wanted -= len(texts[-1])
    return "".join(reversed(texts))


def _lingering(settings: Settings, found: LoreScan, old: Layout) -> list[LoreEntry]:
    """Entries that stand in the old layout and may stay, though nothing calls for them now."""
    active = {entry.id for entry in found.active}
    return [
        entry
        for entry in settings.lore
        if lore_key(entry) in old.anchors
        and entry.id not in active
        and entry.enabled
        and entry.text
        and not is_stable(entry)
    ]


def _strands(
    runs: Sequence[Run], tokenizer: Tokenizer, room: int, cut: Position | None
) -> Iterator[tuple[Strand, bool]]:
    """Strands to try, longest first, and whether each starts elsewhere than the old one did."""
    strand = strand_of(runs, tokenizer, cut=cut, enough=room)
    if strand.begins == "story" or (strand.begins == "cut" and strand.size >= KEEP_OLD_CUT * room):
        yield strand, False
    whole = strand
    if strand.begins == "cut":
        whole = strand_of(runs, tokenizer, cut=None, enough=room)
        if whole.begins == "story":
            yield whole, True
    for share in _SHARES:
        offset = _cut_at(whole, max(int(share * room), 0), int(share * room * KEEP_AT_LEAST / KEEP_AFTER_CUT))
        yield strand_of(runs, tokenizer, cut=whole.position(offset), enough=room), True


def _cut_at(strand: Strand, most: int, least: int) -> int:
    """A place that leaves at most ``most`` and, if it can be helped, ``least`` tokens: best a paragraph."""
    first, last = strand.offset_from_end(most), strand.offset_from_end(least)
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        for match in boundary.finditer(strand.text, max(first - 1, 0), last):
            for offset in (match.end(), match.start()):
                if first <= offset <= last and strand.clean(offset):
                    return offset
    return first


def _drift(strand: Strand, room: int) -> int:
    """The drift in characters, at the strand's own rate of characters per token."""
    return int(DRIFT * room * len(strand.text) / max(strand.size, 1))


def _open(strand: Strand, items: Sequence[Movable], places: dict[str, int]) -> list[Segment]:
    """The strand with each item at its place; at the same place lore comes before the note."""
    standing = sorted(
        (item for item in items if item.key in places),
        key=lambda item: (places[item.key], item.segment.source == "note", item.order, item.key),
    )
    segments: list[Segment] = []
    start = 0
    for item in standing:
        offset = places[item.key]
        if offset > start:
            segments.extend(strand.segments(start, offset))
            start = offset
        segments.append(item.segment)
    segments.extend(strand.segments(start, len(strand.text)))
    return segments


def _account(
    runs: Sequence[Run],
    fixed: Fixed,
    story: Sequence[Segment],
    strand: Strand,
    places: dict[str, int],
    found: LoreScan,
    window: Window,
    previous: Sequence[int],
) -> Assembly:
    segments = (*fixed.head, *story, *fixed.tail)
    tokens = tuple(token for segment in segments for token in segment.tokens)
    counts: dict[Source, int] = {}
    for segment in segments:
        counts[segment.source] = counts.get(segment.source, 0) + len(segment.tokens)
    start = strand.position(0)
    lost = _before(runs, start, strand.lead)
    fell_out = [*fixed.fell_out, *([FellOut("story", lost, start.node_id)] if lost else [])]
    return Assembly(
        segments=segments,
        tokens=tokens,
        counts=counts,
        available=window.available,
        fell_out=tuple(fell_out),
        layout=Layout(start if lost else None, {key: strand.position(at) for key, at in places.items()}),
        cache_break=cache_break(previous, tokens),
        problems=found.problems,
    )


def _before(runs: Sequence[Run], start: Position, lead: int) -> str:
    """The story's text before ``start``, without the last ``lead`` characters."""
    for index in range(len(runs) - 1, -1, -1):  # the start is near the end of a long path
        run, inner = runs[index], start.offset - runs[index].start
        if run.node_id == start.node_id and 0 <= inner <= len(run.text):
            text = "".join([earlier.text for earlier in runs[:index]]) + run.text[:inner]
            return text[: len(text) - lead]
    return "".join([run.text for run in runs])


def _size(segments: Sequence[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)


def _movable_size(fixed: Fixed) -> int:
    return sum(len(item.segment.tokens) for item in fixed.movable)
