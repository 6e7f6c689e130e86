"""Orders of the branches of a round: by their numbers, or the likeliest words first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from srbwriter.engine.generation import Branch

if TYPE_CHECKING:
    from .round import Round

AS_DRAWN, BY_PROBABILITY = "as written", "by likelihood"
ORDERS = {AS_DRAWN: "by their numbers", BY_PROBABILITY: "the branch with the likeliest words first"}
"""Orders of panes by name, with a description."""


def ordered(
    current: Round, name: str, logprobs: Callable[[Branch], Sequence[float | None]]
) -> list[int] | None:
    """Return the branches of a round in an order of :data:`ORDERS`; None while its data are not known.

    ``logprobs`` returns the log-probabilities of a branch's tokens, or requests them.
    """
    order = [branch.index for branch in current.branches]
    if name != BY_PROBABILITY:
        return order
    means: dict[int, float] = {}
    for branch in current.branches:
        values = logprobs(branch)
        if None in values:
            return None
        means[branch.index] = fmean(v for v in values if v is not None) if values else -math.inf
    return sorted(order, key=lambda index: (-means[index], index))
