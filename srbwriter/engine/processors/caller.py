"""The caller's own change of the logits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..types import BranchView, LogitsCallback

if TYPE_CHECKING:
    from ..active import ActiveBranch
    from .base import Logits


class CallerCallback:
    """Calls ``Request.logits_callback``, which may raise anything: that ends its request."""

    def __init__(self, callback: LogitsCallback) -> None:
        self._callback = callback

    def done(self, branch: ActiveBranch) -> bool:
        return False

    def apply(self, logits: Logits, branch: ActiveBranch) -> None:
        ids = list(branch.request.ids), list(branch.buffer.ids)
        self._callback(logits, BranchView(branch.branch.index, *ids))


def process_by_caller(branch: ActiveBranch) -> CallerCallback | None:
    """Return the caller's callback, if the request has one."""
    callback = branch.request.asked.logits_callback
    return None if callback is None else CallerCallback(callback)
