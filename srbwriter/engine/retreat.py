"""Where a branch goes back to before a phrase, and when the phrase may stay.

The branch returns to the last token that could well have been another, and this token is barred there: the
same token is allowed at every other position, and at this one as soon as something before it changes. Where
too little probability is left, it returns further. After ``TRIES`` attempts at one position it returns to
before the beginning of the match, and after as many more the match may stay; half as many are made at the
next position then. So it ends, for any list of banned phrases.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from .branch import ActiveBranch

ENOUGH = 0.1
"""Probability that must be left to other tokens where a branch chooses anew."""
TRIES = 16
"""Attempts at one position before a branch goes back further; after twice as many the phrase may stay."""


class Retreat:
    """Counts the attempts of one branch."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start over: the text is another one."""
        self._farthest = -1  # the farthest beginning of a phrase
        self._tries = 0  # since that was reached
        self._most = 2 * TRIES  # of them; fewer where phrases just before had to stay

    def give_up(self) -> None:
        """Let the next phrase stay: there is no other continuation."""
        self._tries = self._most

    def choose_place(self, active: ActiveBranch, start: int, first: int, nearest: bool = True) -> int | None:
        """Count a phrase, or a dead end; return the place of the token to choose again, if there is one.

        Args:
            start: the character with which the phrase begins.
            first: place of the token in which it begins.
            nearest: whether to return the last place that could well have another token, or ``first``.
        """
        if start > self._farthest:
            exhausted = self._tries >= self._most
            self._most = max(self._most // 2, 2) if exhausted else min(self._most * 2, 2 * TRIES)
            self._farthest, self._tries = start, 0
        self._tries += 1
        if self._tries >= self._most:
            return None
        ids, floor = active.buffer.ids, active.first_free
        beyond, begin = self._tries - self._most // 2, max(first, floor)
        if beyond > 0:
            return max(first - beyond, floor) if first > floor else None
        if not nearest:
            return begin if len(ids) > begin else None
        left: dict[int, float] = {}
        for place in range(len(ids) - 1, begin - 1, -1):
            row = active.rows.get(place)
            if row is None:
                break
            left[place] = _left_to_others(ids[place], row, active.barred.get(place, ()))
            if left[place] >= ENOUGH:
                return place
        return max(left, key=left.__getitem__, default=len(ids) - 1 if len(ids) > floor else None)


def _left_to_others(token: int, row: NDArray[np.float32], barred: Collection[int]) -> float:
    """Return the probability of all tokens except ``token`` and the barred ones."""
    odds = np.exp(row - row.max())
    return float(1.0 - odds[[token, *(set(barred) - {token})]].sum() / odds.sum())
