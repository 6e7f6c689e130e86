"""Verbs on branches that another program writes: what differs from the local engine.

Runs on the event loop's thread.
"""

from __future__ import annotations

from dataclasses import replace

from ..generation import listener_error
from ..steering import Steering
from ..types import FinishReason, Priority
from .branch import RemoteBranch, RemoteRequest
from .vocabulary import PIECES


class RemoteVerbs(Steering[RemoteBranch]):
    """Carries out verbs; branches that are to be written afterwards are WAITING."""

    pieces = PIECES

    def fail(self, request: RemoteRequest, error: BaseException) -> None:
        """End a request of which a listener raised ``error``."""
        for writer in request.branches:
            if writer.branch.live:
                writer.fail(listener_error(error))

    def promote(self, request: RemoteRequest, priority: Priority) -> None:
        """Serve what is still to be asked for sooner."""
        request.asked = request.generation.request = replace(request.asked, priority=priority)

    # ---- how this engine computes branches

    def settle_tail(self, writer: RemoteBranch) -> None:
        writer.spell_tail()

    def finish(self, writer: RemoteBranch, reason: FinishReason) -> None:
        writer.finish(reason)

    def discard(self, writer: RemoteBranch) -> None:
        """No-op: the server keeps nothing for a branch that has ended."""

    def release(self, writer: RemoteBranch, keep: bool = True) -> None:
        writer.leave()

    def revive(self, writer: RemoteBranch) -> None:
        writer.failures = 0
        super().revive(writer)

    def follow_rules(self, writer: RemoteBranch) -> None:
        """Let a branch that is being written continue in another request, by its new rules."""
        if writer.branch.live and writer.writer is not None:
            writer.leave()
            self.revive(writer)
