"""Branches of one request that are sampled together, so that they differ until their texts part.

Two branches are together while the text of one is the beginning of the other's. A branch that is together
with no other draws as if it were alone, at no cost. Knows branches and distributions, nothing of batches.

*distinct*: without replacement. In the order in which they reach a text, each branch draws from its own
filtered distribution without the tokens that siblings chose there. With equal settings that is the law of
Gumbel top-k (Yellott, 1977; Kool, van Hoof and Welling, 2019); with settings of a branch's own each draw is
still exact, given those before. Where siblings have chosen every token that the filters leave, the branch
draws from all of these, and parts later.

*repulsion*: tokens that siblings chose at the same text get a lower logit for later branches.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..types import Drawn, InvalidRequest, NotANumber, Sampling

if TYPE_CHECKING:
    from ..active import ActiveBranch, ActiveRequest
    from ..constraints import Constraint
    from ..generation import Buffer
    from ..sampling import Chain
    from .base import Logits

Distribution: TypeAlias = "tuple[NDArray[np.int64], NDArray[np.float64]]"
"""Tokens in ascending order, and their probabilities."""

DEPTH = 24
"""Tokens after which a branch is taken to have parted: from siblings that have not begun, nobody can tell."""


class Siblings:
    """The branches of a request, and how they are drawn. Belongs to the engine's thread."""

    def __init__(self, request: ActiveRequest) -> None:
        self.request = request
        self.kind = request.asked.siblings
        self.repulsion = request.asked.repulsion
        self.discarded: list[Sequence[int]] = []  # beginnings of attempts that nobody wanted

    def for_branch(self, branch: ActiveBranch) -> SiblingDraw:
        return SiblingDraw(self, branch)

    def discard(self, buffer: Buffer) -> None:
        if begun := _begun(buffer):
            self.discarded.append(begun)


class SiblingDraw:
    """One branch's part in a draw with its siblings."""

    def __init__(self, siblings: Siblings, branch: ActiveBranch) -> None:
        self._siblings, self._branch = siblings, branch

    def repel(self, logits: Logits) -> None:
        for token, times in Counter(self._taken()).items():
            logits[token] -= self._siblings.repulsion * times

    def parted(self) -> bool:
        """Whether no sibling's text begins with the branch's text, nor the other way round."""
        mine = self._branch.buffer.ids
        count = len(mine)
        if count >= DEPTH:
            return True
        for other in self._siblings.request.branches:
            theirs = other.buffer.ids
            if len(theirs) <= count:
                theirs = _begun(other.buffer)
            if other is not self._branch and (len(theirs) > count or other.branch.live):
                common = min(count, len(theirs))
                if mine[:common] == theirs[:common]:
                    return False
        return not any(ids[:count] == mine for ids in self._siblings.discarded if len(ids) > count)

    def draw(self, logits: Logits, constraint: Constraint | None) -> int | None:
        chain = self._branch.chain
        assert chain is not None
        if self._siblings.kind == "independent":
            return None
        tokens, chances = _distribution(chain, logits, constraint)
        if not len(tokens):
            return None
        left = self._not_taken(tokens, chances)
        place = int(left.argmax()) if chain.greedy else _at(left, self._chance())
        token = int(tokens[place])
        among = float(left[place] / left.sum())
        drawn, count = self._branch.buffer.drawn, len(self._branch.buffer.ids)
        while drawn and drawn[-1].position >= count:  # the branch has gone back before a banned phrase
            drawn.pop()
        drawn.append(Drawn(count, token, math.log(chances[place]), math.log(among)))
        return token

    def _not_taken(self, tokens: NDArray[np.int64], chances: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return ``chances`` without those of tokens that siblings took; all, if nothing else is left."""
        left = np.where(np.isin(tokens, list(self._taken())), 0.0, chances)
        return left if left.any() else chances

    def _taken(self) -> Iterator[int]:
        """Yield the tokens that siblings, and discarded attempts, chose after the branch's current text."""
        mine = self._branch.buffer.ids
        count = len(mine)
        others = [other for other in self._siblings.request.branches if other is not self._branch]
        for ids in (*(_begun(other.buffer) for other in others), *self._siblings.discarded):
            if len(ids) > count and ids[:count] == mine:
                yield ids[count]

    def _chance(self) -> float:
        """Return a number that belongs to this attempt, this place in it, and how often it went back."""
        handle, place = self._branch.branch, len(self._branch.buffer.ids)
        return _chance(handle.seed, place, handle.bans) if handle.bans else _chance(handle.seed, place)


def share_draws(request: ActiveRequest) -> Siblings | None:
    """Return the draws of ``request``, if its branches are drawn together or repel each other."""
    together = request.asked.siblings != "independent" or request.asked.repulsion
    return Siblings(request) if together else None


class Repulsion:
    """Makes tokens less likely that siblings chose at the same text, until the branch has parted."""

    def done(self, branch: ActiveBranch) -> bool:
        return branch.shared_draw is None or not branch.request.asked.repulsion

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        if branch.shared_draw is not None:
            branch.shared_draw.repel(logits)


def _begun(buffer: Buffer) -> list[int]:
    """Return the first tokens of an attempt, with the one behind them that ended it, where that is known."""
    count, begun = len(buffer.ids), buffer.ids[:DEPTH]
    if buffer.drawn and buffer.drawn[-1].position == count:  # in order of their places
        begun += [drawn.token for drawn in buffer.drawn if drawn.position == count]
    return begun


def _chance(seed: int, *place: int) -> float:
    """A number in 0 … 1, less than 1, that looks like chance and is the same for the same place."""
    digest = blake2b(np.array(place, np.int64).tobytes(), digest_size=8, key=seed.to_bytes(8, "little"))
    return (int.from_bytes(digest.digest(), "little") >> 11) / 2**53


def check_together(siblings: str, sampling: Sampling) -> None:
    """Raise InvalidRequest for settings whose sampler does not leave the choice to another."""
    if siblings == "independent" or sampling.temperature <= 0:
        return
    for name, on in (("mirostat", sampling.mirostat > 0), ("adaptive_target", sampling.adaptive_target >= 0)):
        if on:
            raise InvalidRequest(
                "siblings",
                f"branches cannot be drawn together with {name}, which steers by its own choices: "
                f"turn that off, or let siblings be independent",
            )


def _distribution(chain: Chain, logits: Logits, constraint: Constraint | None) -> Distribution:
    """Return the distribution that a branch alone would draw from; empty where no token is allowed.

    A constraint is asked about the drawn token, and only if that is forbidden another is drawn from the
    allowed ones: so the law of a constrained branch is a mixture of both distributions.
    """
    if constraint is None:
        return _ordered(*chain.distribution(logits))
    masked = logits.copy()
    if not constraint.mask(masked):
        return np.empty(0, np.int64), np.empty(0)
    tokens, chances = chain.distribution(logits)
    allowed = masked[tokens] > -np.inf
    mixed = np.zeros(len(logits))
    if chain.greedy:
        allowed[:] = False
    else:
        mixed[tokens[allowed]] = chances[allowed]
    rest = float(chances[~allowed].sum())
    if rest > 0.0:
        tokens, chances = chain.distribution(masked)
        mixed[tokens] += rest * chances
    tokens = np.flatnonzero(mixed)
    return tokens, mixed[tokens]


def _ordered(tokens: NDArray[np.int64], chances: NDArray[np.float64]) -> Distribution:
    """In one order for all, and without what has no chance."""
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
