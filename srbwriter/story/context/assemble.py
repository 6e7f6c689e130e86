"""Assembly of a prompt's tokens from a path and its settings.

The order is: BOS, template, memory, constant lore, request and the rest of the template, then the story from
the cut on, with note and triggered lore anchored inside it.  Parts that change least come first, and movable
parts keep their places, so that most prompts continue the previous one.  A wish, which is for one prompt
only, is put near the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import regex

from srbwriter.story.context.preamble import Movable, fit_preamble, is_stable, lore_key
from srbwriter.story.context.tail import Placed, StoryTail, tail_of
from srbwriter.story.context.types import (
    Assembly,
    Dropped,
    Layout,
    Position,
    Segment,
    Tokenizer,
    Window,
)
from srbwriter.story.lore import LoreScan, reach, scan
from srbwriter.story.model import LoreEntry, Settings, Span

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
_PARAGRAPH_END = regex.compile(r"\n+")
_SENTENCE_END = regex.compile(r"(?<=[.!?…][\"'”’»)\]]*)\s+")
_WORD_END = regex.compile(r"\s+")


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
    spans = _placed(path)
    old = layout or Layout()
    found = scan(settings.lore, _end(spans, settings), scan_depth=settings.scan_depth)
    inner = replace(window, reserve=window.reserve + _size(wish))
    around = fit_preamble(settings, found.active, _lingering(settings, found, old), tokenizer, inner)
    room = inner.available - _size(around.head) - _size(around.tail)
    left = room - _size(item.segment for item in around.movable)
    for tail, afresh in _tails(spans, tokenizer, left, old.cut):
        anchors = dict[str, Position]() if afresh else old.anchors
        characters = len(tail.text) / max(tail.size, 1)  # for a token
        drift = int(DRIFT * room * characters)
        places = _settle(around.movable, tail, anchors, drift)
        story = _open(tail, around.movable, places, wish)
        if _size(story) <= room:
            break
    else:  # the last tail is empty, and the movable parts are fitted, so this cannot happen
        raise AssertionError("an empty story did not fit")
    segments = (*around.head, *story, *around.tail)
    tokens = tuple(token for segment in segments for token in segment.tokens)
    start = tail.position(0)
    lost = _before(spans, start, tail.lead)
    return Assembly(
        segments=segments,
        tokens=tokens,
        dropped=(*around.dropped, *([Dropped("story", lost, start.node_id)] if lost else [])),
        layout=Layout(start if lost else None, {key: tail.position(at) for key, at in places.items()}),
        problems=found.problems,
    )


def _placed(path: Iterable[tuple[str, Sequence[Span]]]) -> list[Placed]:
    found: list[Placed] = []
    for node, spans in path:
        start = 0
        for span in spans:
            found.append(Placed(node, start, span))
            start += len(span.text)
    return found


def _end(spans: Sequence[Placed], settings: Settings) -> str:
    """Return the end of the story that lore entries can match."""
    texts: list[str] = []
    wanted = reach(settings.lore, settings.scan_depth)
    for _, _, span in reversed(spans):
        if wanted <= 0:
            break
        texts.append(span.text[-wanted:])
        wanted -= len(texts[-1])
    return "".join(reversed(texts))


def _lingering(settings: Settings, found: LoreScan, old: Layout) -> list[LoreEntry]:
    """Return entries of the old layout that may stay, though nothing activates them now."""
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


def _tails(
    spans: Sequence[Placed], tokenizer: Tokenizer, room: int, cut: Position | None
) -> Iterator[tuple[StoryTail, bool]]:
    """Yield tails to try, longest first, and whether each starts at another place than the old one."""
    tail = tail_of(spans, tokenizer, cut=cut, enough=room)
    if tail.begins == "story" or (tail.begins == "cut" and tail.size >= KEEP_OLD_CUT * room):
        yield tail, False
    whole = tail
    if tail.begins == "cut":
        whole = tail_of(spans, tokenizer, cut=None, enough=room)
        if whole.begins == "story":
            yield whole, True
    for share in _SHARES:
        offset = _cut_at(whole, max(int(share * room), 0), int(share * room * KEEP_AT_LEAST / KEEP_AFTER_CUT))
        yield tail_of(spans, tokenizer, cut=whole.position(offset), enough=room), True


def _cut_at(tail: StoryTail, most: int, least: int) -> int:
    """Return a cut, preferably at a paragraph, that leaves at most ``most`` tokens, if possible ``least``."""
    first, last = tail.offset_from_end(most), tail.offset_from_end(least)
    for boundary in (_PARAGRAPH_END, _SENTENCE_END, _WORD_END):
        for match in boundary.finditer(tail.text, max(first - 1, 0), last):
            for offset in (match.end(), match.start()):
                if first <= offset <= last and tail.clean(offset):
                    return offset
    return first


@dataclass(frozen=True, slots=True)
class _Place:
    """An item's old place, the place it should have by its depth, and whether it cannot stay."""

    item: Movable
    old: int | None
    ideal: int
    must_move: bool
    due: bool
    """Whether it has drifted so far that it should move together with another item."""

    @property
    def breaks_at(self) -> int:
        """Return the offset from which the prompt changes if this item moves, appears or disappears."""
        places = [self.ideal] if self.item.wanted else []
        return min([*places, *([self.old] if self.old is not None else [])])


def _settle(
    items: Sequence[Movable], tail: StoryTail, anchors: Mapping[str, Position], drift: int
) -> dict[str, int]:
    """Return the offset in ``tail`` of every item in it, by key.

    An item near the end of a story breaks the cached prefix whenever it moves. So it keeps its place
    (``anchors``) while the story grows past it, by up to ``drift`` characters. The items behind a break then
    move too, since that costs nothing more, and so do items that would soon have to move, since one break is
    cheaper than two.
    """
    places = [_place(item, tail, anchors, drift) for item in items]
    places = [place for place in places if place.item.wanted or place.old is not None]
    moving = [place for place in places if place.must_move]
    if moving:
        moving += [place for place in places if place.due]
    break_at = min((place.breaks_at for place in moving), default=len(tail.text) + 1)
    settled: dict[str, int] = {}
    for one in places:
        if one.old is not None and one not in moving and one.old < break_at:
            settled[one.item.key] = one.old
        elif one.item.wanted:
            settled[one.item.key] = one.ideal
    return settled


def _place(item: Movable, tail: StoryTail, anchors: Mapping[str, Position], drift: int) -> _Place:
    ideal = tail.line_start(max(item.depth, 1))
    anchor = anchors.get(item.key)
    old = tail.locate(anchor) if anchor is not None else None
    if old is None or not tail.clean(old):
        return _Place(item, None, ideal, must_move=item.wanted, due=False)
    too_far = ideal - old > drift
    too_near = old > ideal and old > tail.line_start(1)
    return _Place(item, old, ideal, must_move=too_far or too_near, due=ideal - old > drift // 2)


def place_near_end(text: str, clean: Callable[[int], bool] = lambda _: True) -> int:
    """Return the offset of the last line of ``text``; of a sentence or a word in it if that line is long.

    Only where ``clean`` allows a cut; otherwise the end of ``text``.
    """
    end = len(text.rstrip())
    line = text.rfind("\n", 0, end) + 1
    if line >= end - NEAR_END and clean(line):
        return line
    for boundary in (_SENTENCE_END, _WORD_END):
        for match in boundary.finditer(text, max(end - NEAR_END, 0), end):
            for offset in (match.end(), match.start()):
                if clean(offset):
                    return offset
    return len(text)


def _open(
    tail: StoryTail, items: Sequence[Movable], places: dict[str, int], wish: Sequence[Segment]
) -> list[Segment]:
    """Return the tail with each item at its place; at the same place lore precedes the note, and the wish is
    last."""
    standing = sorted(
        (item for item in items if item.key in places),
        key=lambda item: (places[item.key], item.segment.source == "note", item.order, item.key),
    )
    inserted: list[tuple[int, Sequence[Segment]]] = [(places[item.key], (item.segment,)) for item in standing]
    if wish:
        inserted.append((place_near_end(tail.text, tail.clean), wish))
        inserted.sort(key=lambda pair: pair[0])
    segments: list[Segment] = []
    start = 0
    for offset, some in inserted:
        if offset > start:
            segments.extend(tail.segments(start, offset))
            start = offset
        segments.extend(some)
    segments.extend(tail.segments(start, len(tail.text)))
    return segments


def _before(spans: Sequence[Placed], start: Position, lead: int) -> str:
    """Return the story's text before ``start``, without the last ``lead`` characters."""
    for index in range(len(spans) - 1, -1, -1):  # the start is near the end of a long path
        node, begin, span = spans[index]
        if node == start.node_id and 0 <= start.offset - begin <= len(span.text):
            text = "".join([above.span.text for above in spans[:index]]) + span.text[: start.offset - begin]
            return text[: len(text) - lead]
    return "".join([placed.span.text for placed in spans])


def _size(segments: Iterable[Segment]) -> int:
    return sum(len(segment.tokens) for segment in segments)
