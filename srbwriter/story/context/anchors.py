"""Where the author's note and the lore stand in the story, and when they move.

Text inserted near the end of a story breaks the cached prefix wherever it moves.  So it keeps its
place while the story grows past it, and moves only when it has drifted too far.  Whatever stands
behind the break then moves along, since that costs nothing more, and so does what would soon have to
move, since one break is cheaper than two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from srbwriter.story.context.fixed import Movable
from srbwriter.story.context.strand import Strand
from srbwriter.story.context.types import Position


@dataclass(frozen=True, slots=True)
class _Place:
    """An item's old place, the place it should have by its depth, and whether it cannot stay."""

    item: Movable
    old: int | None
    ideal: int
    must_move: bool
    due: bool
    """Whether it has drifted so far that it should move with the next one that must."""

    @property
    def breaks_at(self) -> int:
        """The offset from which the prompt changes if this item moves, appears or goes."""
        places = [self.ideal] if self.item.wanted else []
        return min([*places, *([self.old] if self.old is not None else [])])


def place(
    items: Sequence[Movable], strand: Strand, anchors: Mapping[str, Position], *, drift: int, afresh: bool
) -> dict[str, int]:
    """The offset in ``strand`` of every item that stands in it, by key.

    ``drift`` is how many characters the story may grow past an item's depth before it moves.
    ``afresh`` forgets all old places: the prompt changes before them anyway.
    """
    places = [_place(item, strand, {} if afresh else anchors, drift) for item in items]
    places = [place for place in places if place.item.wanted or place.old is not None]
    moving = [place for place in places if place.must_move]
    if moving:
        moving += [place for place in places if place.due]
    break_at = min((place.breaks_at for place in moving), default=len(strand.text) + 1)
    settled: dict[str, int] = {}
    for one in places:
        if one.old is not None and one not in moving and one.old < break_at:
            settled[one.item.key] = one.old
        elif one.item.wanted:
            settled[one.item.key] = one.ideal
    return settled


def _place(item: Movable, strand: Strand, anchors: Mapping[str, Position], drift: int) -> _Place:
    ideal = strand.line_start(max(item.depth, 1))
    anchor = anchors.get(item.key)
    old = strand.locate(anchor) if anchor is not None else None
    if old is None or not strand.clean(old):
        return _Place(item, None, ideal, must_move=item.wanted, due=False)
    too_far = ideal - old > drift
    too_near = old > ideal and old > strand.line_start(1)
    return _Place(item, old, ideal, must_move=too_far or too_near, due=ideal - old > drift // 2)
