"""Tokens that may not come at certain positions: the end before ``min_tokens``, and barred tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from ..active import ActiveBranch
    from .base import Logits


class DelayedEnd:
    """Lets no token end the text before the branch has ``min_tokens``."""

    def done(self, branch: ActiveBranch) -> bool:
        return len(branch.buffer.ids) >= branch.min_tokens

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        if not self.done(branch):
            logits[branch.request.eog_ids] = -np.inf


class BarredTokens:
    """Lets no token come that is barred at its position: by a fork, or where the branch went back."""

    def done(self, branch: ActiveBranch) -> bool:
        return len(branch.buffer.ids) > max(branch.barred, default=-1)

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        barred = branch.barred.get(len(branch.buffer.ids))
        if barred:
            logits[list(barred)] = -np.inf
