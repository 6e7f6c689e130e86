"""Rolls near-duplicate branches again, if that is set. Imports no screen."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar

from .instrument import Instrument

if TYPE_CHECKING:
    from .rounds import Round

_FRESH = 2.0  # seconds after its end in which a branch counts as unread


class Renewing(Instrument):
    """Rolls near-duplicates of a round again, unless they were read, marked or steered."""

    name: ClassVar[str] = "renewing"

    def renew_alike(self, read: Collection[int] = ()) -> list[int]:
        """Find near-duplicates, and roll one of each pair again if that is set.

        Never one that is in ``read``, bookmarked or steered, or that ended a while ago; each
        twice at most. Call it repeatedly while a round is shown. Returns the indices.
        """
        current = self._desk.round
        if current is None or self._desk.stale or current.generation is None:
            return []
        found = current.duplicates
        found.look(current.branches)
        if not self._desk.variety.renew or not current.taken_up:
            return []
        chosen = found.to_renew(current.branches, read, _FRESH)
        renewed = [index for index in chosen if not _is_marked(current, index)]
        for index in renewed:
            found.renew(current.branches[index])
        return renewed


def _is_marked(current: Round, index: int) -> bool:
    """Whether the writer has bookmarked a branch."""
    if index >= len(current.tracks) or not current.tracks[index].nodes:
        return False
    node = current.node_of(index)
    marks = current.story.marks(node) if current.story.is_living(node) else None
    return marks is not None and marks.bookmark
