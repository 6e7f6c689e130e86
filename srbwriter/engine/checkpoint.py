"""Checkpoints of a branch, and the choice of the token to rewind to.

The sampler is not part of a checkpoint: its random state continues after a rewind, or the same token would be
drawn again.

When a watcher asks for a rewind, the branch returns to the last token that could well have been another, and
this token is barred there: the same token is allowed at every other position, and at this one as soon as
something before it changes. Where too little probability is left, it returns further. After ``TRIES``
attempts at one position it returns to before the beginning of the match, and after as many more the match may
stay; half as many are made at the next position then. So it ends, for any list of banned phrases.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .watchers import Watcher


ENOUGH = 0.1
"""Probability that must be left to other tokens where a branch chooses anew."""

TRIES = 16
"""Attempts at one position before a branch goes back further; after twice as many the phrase may stay."""


@dataclass(slots=True)
class Checkpoint:
    """The state of a branch's text before a token, and the logits of that token."""

    tokens: int  # of the attempt before it
    decoded: int  # characters decoded before it, those held back included
    floor: int  # no rule cuts before this character
    pending: int  # characters that still repeat the end of the prompt (token healing)
    held: str  # the end of the text that was not published
    decoder: tuple[bytes, int]  # state of the UTF-8 decoder
    watchers: Sequence[Watcher]  # copies of the branch's watchers
    logits: NDArray[np.float32] | None = None  # the row that the token was chosen from, if it is kept

    @property
    def published(self) -> int:
        """Characters published before the token."""
        return self.decoded - len(self.held)


class RewindPolicy:
    """Chooses where a branch goes back to before a phrase, and when it gives up."""

    def __init__(self) -> None:
        self._farthest = -1  # the farthest beginning of a phrase
        self._tries = 0  # since that was reached
        self._most = 2 * TRIES  # of them; fewer where phrases just before had to stay

    @property
    def exhausted(self) -> bool:
        """Whether the phrase may stay."""
        return self._tries >= self._most

    def count_hit(self, start: int) -> None:
        """Count a phrase that begins at the character ``start``, or a dead end there."""
        if start > self._farthest:
            self._most = max(self._most // 2, 2) if self.exhausted else min(self._most * 2, 2 * TRIES)
            self._farthest, self._tries = start, 0
        self._tries += 1

    def choose_position(
        self,
        ids: Sequence[int],
        rows: Sequence[NDArray[np.float32] | None],
        barred: Mapping[int, Collection[int]],
        first: int,
        floor: int,
        nearest: bool = True,
    ) -> int | None:
        """Return the position in ``ids`` to sample again, or None if there is none.

        Args:
            ids: tokens of the branch.
            rows: the logits that its last tokens were chosen from.
            barred: tokens that are barred at a position already.
            first: position of the token in which the phrase begins.
            floor: no position before this one was chosen by the model.
            nearest: whether to return the last position that could well have another token, or ``first``.
        """
        if self.exhausted:
            return None
        beyond = self._tries - self._most // 2
        if beyond > 0:
            return max(first - beyond, floor) if first > floor else None
        if not nearest:
            return max(first, floor) if len(ids) > max(first, floor) else None
        begin = len(ids) - len(rows)
        places = range(len(ids) - 1, max(first, floor, begin) - 1, -1)
        left = {k: _left_to_others(ids[k], rows[k - begin], barred.get(k, ())) for k in places}
        enough = next((place for place in places if left[place] >= ENOUGH), None)
        if enough is not None:
            return enough
        return max(places, key=lambda place: left[place], default=len(ids) - 1 if len(ids) > floor else None)

    def give_up(self) -> None:
        """Let the next phrase stay: there is no other continuation."""
        self._tries = self._most

    def forget(self) -> None:
        """Start over: the text is another one."""
        self._farthest, self._tries, self._most = -1, 0, 2 * TRIES


def _left_to_others(token: int, row: NDArray[np.float32] | None, barred: Collection[int]) -> float:
    """Return the probability of all tokens except ``token`` and the barred ones."""
    import numpy as np  # here, for an engine elsewhere needs none

    if row is None:
        return 0.0
    odds = np.exp(row - row.max())
    return float(1.0 - odds[[token, *(set(barred) - {token})]].sum() / odds.sum())
