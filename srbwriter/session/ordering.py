"""Orders of the branches of a round."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from srbwriter.engine.generation import Branch

from .likeness import SHORT_RUN, likeness, runs

if TYPE_CHECKING:
    from .rounds import Round


def _as_drawn(current: Round) -> list[int]:
    return [branch.index for branch in current.branches]


def _by_difference(current: Round) -> list[int]:
    """Return the first branch, then always the one that differs most from those before it."""
    texts = {branch.index: runs(branch.text, SHORT_RUN) for branch in current.branches}
    first, *left = list(texts)
    order: list[int] = [first]
    nearest: dict[int, float] = {index: likeness(texts[index], texts[first]) for index in left}
    while nearest:
        best = min(nearest, key=lambda index: (nearest[index], index))
        del nearest[best]
        order.append(best)
        nearest = {index: max(known, likeness(texts[index], texts[best])) for index, known in nearest.items()}
    return order


def _by_length(current: Round) -> list[int]:
    lengths = {branch.index: len(branch.text) for branch in current.branches}
    return sorted(lengths, key=lambda index: (-lengths[index], index))


def _by_probability(current: Round) -> list[int]:
    known = current.mean_logprobs
    return sorted(
        (b.index for b in current.branches), key=lambda index: (-known.get(index, -math.inf), index)
    )


def ordered(
    current: Round, name: str, logprobs: Callable[[Branch], Sequence[float | None]]
) -> list[int] | None:
    """Return the branches of a round in an order of :data:`ORDERS`; None while its data are not known.

    ``logprobs`` returns the log-probabilities of a branch's tokens, or requests them.
    """
    if name == BY_PROBABILITY:
        known = {branch.index: logprobs(branch) for branch in current.branches}
        if any(value is None for values in known.values() for value in values):
            return None
        means = {
            index: fmean(v for v in values if v is not None) for index, values in known.items() if values
        }
        current.mean_logprobs = means
    return ORDERS[name][1](current)


AS_DRAWN, BY_PROBABILITY, BY_LENGTH = "as written", "by likelihood", "by length"
ORDERS: dict[str, tuple[str, Callable[[Round], list[int]]]] = {
    AS_DRAWN: ("by their numbers", _as_drawn),
    "by difference": ("the most different ones first", _by_difference),
    BY_PROBABILITY: ("the branch with the likeliest words first", _by_probability),
    BY_LENGTH: ("the longest first", _by_length),
}
"""Orders of panes by name: a description, and a function from a round to the order of its indices."""
