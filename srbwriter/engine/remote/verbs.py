"""Verbs on branches that another program computes: what differs from the local engine.

Runs on the event loop's thread.
"""

from __future__ import annotations

from dataclasses import replace

from ..generation import listener_error
from ..steering import Steering
from ..text import TokenPieces
from ..types import BranchState, FinishReason, Priority, Stop
from .branch import RemoteBranch, RemoteRequest


class RemoteVerbs(Steering[RemoteBranch]):
    """Carries out verbs; branches that are to be written afterwards are WAITING."""

    def __init__(self, pieces: TokenPieces) -> None:
        self.pieces = pieces

    def fail(self, request: RemoteRequest, error: BaseException) -> None:
        """End a request of which a listener raised ``error``."""
        for writer in request.branches:
            if writer.branch.live:
                writer.fail(listener_error(error))

    def promote(self, request: RemoteRequest, priority: Priority) -> None:
        """Serve the request sooner from now on."""
        request.asked = request.generation.request = replace(request.asked, priority=priority)
        for writer in {each.writer for each in request.branches if each.writer is not None}:
            writer.promote()

    def resume(self, writer: RemoteBranch) -> None:
        super().resume(writer)
        if writer.resting and writer.writer is not None and writer.branch.state is BranchState.WAITING:
            writer.resting = False
            writer.writer.resume(writer)

    def extend(self, writer: RemoteBranch, stop: Stop | int | None) -> None:
        if writer.branch.finish_reason is FinishReason.EOG:
            writer.beyond_end = True
        super().extend(writer, stop)

    # ---- how this engine computes branches

    def settle_tail(self, writer: RemoteBranch) -> None:
        """The next request asks the server for the tokens first."""

    def finish(self, writer: RemoteBranch, reason: FinishReason) -> None:
        writer.finish(reason)

    def discard(self, writer: RemoteBranch) -> None:
        """No-op: the server keeps nothing for a branch that has ended."""

    def release(self, writer: RemoteBranch, keep: bool = True) -> None:
        writer.leave("stop" if keep else "kill")

    def rest(self, writer: RemoteBranch) -> None:
        """Pause the branch on the server, or end the request that writes it."""
        if writer.writer is not None and writer.writer.pause(writer):
            writer.resting = True
        else:
            writer.leave()

    def revive(self, writer: RemoteBranch) -> None:
        writer.failures = 0
        super().revive(writer)

    def follow_rules(self, writer: RemoteBranch) -> None:
        """Let a branch that is being written continue in another request, by its new rules."""
        if writer.branch.state is BranchState.PAUSED:
            writer.leave()
        elif writer.branch.live and writer.writer is not None:
            writer.leave()
            self.revive(writer)

    def heal(self, writer: RemoteBranch, text: str) -> None:
        writer.spell_again(text)
