"""Tokens that the branch's own recent text makes likely become less likely, so that it writes otherwise.

The text so far is taken for a small model of itself: how often each token occurred in it, how often after
the same last token, and after the same last two. The sum of the three shares says how much a token is like
what the branch has written, and is taken off its logit, times the strength. Words that every text needs are
a few percent of it and stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..active import ActiveBranch
    from .base import Logits

RECENT = 256
"""Tokens of the branch that are looked at: about 200 words."""


class Contrast:
    """Subtracts ``Sampling.contrast`` times the likeness of each token to the branch's text."""

    def done(self, branch: ActiveBranch) -> bool:
        return not branch.sampling.contrast

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        found = likeness(branch.buffer.ids[-RECENT:])
        if found:
            logits[list(found)] -= branch.sampling.contrast * np.array([*found.values()], np.float32)


def likeness(ids: Sequence[int]) -> Mapping[int, float]:
    """Return how much each token is like what follows in ``ids`` where they read as at their end, 0 to 3."""
    found: dict[int, float] = {}
    after_one = [k for k in range(1, len(ids)) if ids[k - 1] == ids[-1]]
    after_two = [k for k in after_one if k > 1 and ids[k - 2] == ids[-2]]
    for places in (range(len(ids)), after_one, after_two):
        for token, times in Counter(ids[k] for k in places).items():
            found[token] = found.get(token, 0.0) + times / len(places)
    return found
