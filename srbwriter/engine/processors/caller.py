"""The caller's own change of the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types import BranchView, TokensView

if TYPE_CHECKING:
    from ..active import ActiveBranch
    from .base import Logits


class CallerCallback:
    """Calls ``Request.logits_callback``, which may raise anything: that ends its request."""

    def done(self, branch: ActiveBranch) -> bool:
        return branch.request.asked.logits_callback is None

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        callback = branch.request.asked.logits_callback
        if callback is not None:
            ids = TokensView(branch.request.ids), TokensView(branch.buffer.ids)
            callback(logits, BranchView(branch.branch.index, *ids))
