"""Branches of one request that are sampled together, so that they differ until their texts part.

Two branches are together while the text of one is the beginning of the other's. A branch that is together
with no other draws as if it were alone, at no cost.

They draw without replacement: in the order in which they reach a text, each branch draws from its own
filtered distribution without the tokens that siblings chose there. With equal settings that is the law of
Gumbel top-k (Yellott, 1977; Kool, van Hoof and Welling, 2019); with settings of a branch's own each draw is
still exact, given those before. Where siblings have chosen every token that the filters leave, the branch
draws from all of these, and parts later.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .types import NotANumber

if TYPE_CHECKING:
    from .branch import ActiveBranch
    from .constraints import Constraint
    from .sampling import Chain

Logits: TypeAlias = "NDArray[np.float32]"
Distribution: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"
"""Tokens in ascending order, and their probabilities."""

DEPTH = 24
"""Tokens after which a branch is taken to have parted: from siblings that have not begun, nobody can tell."""


class Siblings:
    """The ``branches`` of a request, and how they are drawn. Belongs to the engine's thread."""

    def __init__(self, branches: Sequence[ActiveBranch]) -> None:
        self._branches = branches
        self._discarded: list[Sequence[int]] = []  # beginnings of attempts that nobody wanted

    def discard(self, branch: ActiveBranch) -> None:
        """Note how an attempt began that was rolled again."""
        if begun := _beginning(branch):
            self._discarded.append(begun)

    def parted(self, branch: ActiveBranch) -> bool:
        """Whether no sibling's text begins with the branch's text, nor the other way round."""
        mine = branch.buffer.ids
        count = len(mine)
        if count >= DEPTH:
            return True
        for other in self._branches:
            theirs = _beginning(other)
            if other is not branch and (len(theirs) > count or other.branch.live):
                common = min(count, len(theirs))
                if mine[:common] == theirs[:common]:
                    return False
        return not any(ids[:count] == mine for ids in self._discarded if len(ids) > count)

    def draw(self, branch: ActiveBranch, logits: Logits, constraint: Constraint | None) -> int | None:
        """Choose a token; None where no token is allowed."""
        chain, mine, handle = branch.chain, branch.buffer.ids, branch.branch
        assert chain is not None
        tokens, chances = _distribution(chain, logits, constraint)
        if not len(tokens):
            return None
        count = len(mine)
        begun = [_beginning(other) for other in self._branches if other is not branch]
        taken = [ids[count] for ids in (*begun, *self._discarded) if len(ids) > count and ids[:count] == mine]
        left = np.where(np.isin(tokens, taken), 0.0, chances)
        left = left if left.any() else chances
        # The chance belongs to this attempt, this place in it, and how often it went back.
        chance = _chance(handle.seed, count, handle.bans) if handle.bans else _chance(handle.seed, count)
        token = int(tokens[int(left.argmax()) if chain.greedy else _at(left, chance)])
        branch.begun = [*mine, token]
        return token


def _beginning(branch: ActiveBranch) -> list[int]:
    """Return the first tokens of an attempt, with the one behind them that ended it, where that is known."""
    ids = branch.buffer.ids
    return branch.begun if len(branch.begun) > len(ids) else ids[:DEPTH]


def _chance(seed: int, *place: int) -> float:
    """A number in 0 … 1, less than 1, that looks like chance and is the same for the same place."""
    digest = blake2b(np.array(place, np.int64).tobytes(), digest_size=8, key=seed.to_bytes(8, "little"))
    return (int.from_bytes(digest.digest(), "little") >> 11) / 2**53


def _distribution(chain: Chain, logits: Logits, constraint: Constraint | None) -> Distribution:
    """Return the distribution of a branch alone, in one order for all; empty where no token is allowed."""
    if constraint is not None:
        logits = logits.copy()
        if not constraint.mask(logits):
            return np.empty(0, np.int64), np.empty(0)
    tokens, chances = chain.distribution(logits)
    if not np.isfinite(chances).all():
        raise NotANumber
    if (tokens[1:] < tokens[:-1]).any():  # the whole vocabulary is not sorted, and sorting it takes long
        order = np.argsort(tokens, kind="stable")
        tokens, chances = tokens[order], chances[order]
    some = chances > 0.0
    return tokens[some], chances[some]


def _at(chances: NDArray[np.float64], point: float) -> int:
    """Return the interval that contains ``point`` of 0 … 1; never one of no width."""
    ends = np.cumsum(chances)
    place = int(ends.searchsorted(point * float(ends[-1]), side="right"))
    return min(place, int(chances.nonzero()[0][-1]))
