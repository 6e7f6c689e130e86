"""The side of a branch whose text another program writes.

State, text and stop rules are those of a local branch (:mod:`srbwriter.engine.branch`); the addition is the
request that writes it. Use everything here on the event loop's thread only, except for the construction of a
request.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from ..branch import BranchWriter, ServedRequest
from ..generation import Branch, Generation
from ..seeds import derive_seed
from ..text import TokenPieces
from ..types import BranchState, Cut, EngineError, Failed, FinishReason, Priority, TokenLogprob
from .dialects.base import Tokens
from .vocabulary import encode, ends_of

SEEDS = 1 << 31
"""Every server takes the seeds below."""


class AnswerWriter(Protocol):
    """The request to the server that writes a branch, as far as the branch knows it."""

    def release(self, branch: RemoteBranch) -> None:
        """Let go of a branch."""
        ...


class RemoteRequest(ServedRequest["RemoteBranch"]):
    """A request with its branches.

    Attributes:
        prompt_done: the server has evaluated the prompt.
        restart: a branch has to be requested once more.
        dead: the whole request has failed.
    """

    def __init__(self, generation: Generation) -> None:
        super().__init__(generation, list(generation.prompt_ids), b"")
        self.prompt_done = self.restart = self.dead = False

    def make_writer(self, branch: Branch, pieces: TokenPieces) -> RemoteBranch:
        return RemoteBranch(self, branch, pieces)

    def derive_seed(self, seed: int, k: int) -> int:
        return derive_seed(seed, k) % SEEDS

    @property
    def waiting(self) -> list[RemoteBranch]:
        """Branches that are to be written, and that no request writes."""
        return [
            each for each in self.branches
            if each.branch.state is BranchState.WAITING and each.writer is None
        ]  # fmt: skip

    def publish(self, obeyed: bool = False) -> None:
        """Publish the events since the last time; ``obeyed``: after a command, which may end the request."""
        if (self.events or obeyed) and not self.live and not self.dead:
            failed = [b.branch.error for b in self.branches if b.branch.state is BranchState.FAILED]
            # In the app a writer may roll failed branches again later; a program gets the error at once.
            if len(failed) == len(self.branches) and self.asked.priority is not Priority.FOREGROUND:
                self.dead = True
                self.events.append(Failed(failed[0] or EngineError("it failed")))
            else:
                self.events.append(self.completed())
        events, self.events = self.events, []
        self.generation.publish(events)


class RemoteBranch(BranchWriter):
    """One branch. Each event of the server counts as one token.

    Attributes: writer: the upstream request that writes it now. offset: characters of its text before those
    of the upstream request. failures: attempts since the last token. unplaced: log-probabilities of tokens
    whose text is still to come.
    """

    request: RemoteRequest

    def __init__(self, request: RemoteRequest, branch: Branch, pieces: TokenPieces) -> None:
        self.writer: AnswerWriter | None = None
        self.offset = self.failures = 0
        self.unplaced: list[float] = []
        super().__init__(request, branch, pieces)

    @property
    def written(self) -> int:
        return self.text.tokens

    @property
    def sampling_rule(self) -> tuple[object, ...]:
        return *super().sampling_rule, self.limit

    @property
    def next_seed(self) -> int:
        """The seed of the next request: another one than the last, which would draw the same numbers."""
        seed = self.branch.seed % SEEDS
        return self.request.derive_seed(seed, self.written) if self.buffer.ids else seed

    def begin_answer(self, writer: AnswerWriter) -> None:
        """Note that ``writer`` writes the branch from here on."""
        self.writer, self.offset = writer, self.text.decoded
        self.unplaced.clear()

    # ---- what the server writes

    def write(self, tokens: Tokens) -> None:
        """Add text to the branch and apply the stop rules."""
        branch, now = self.branch, time.monotonic()
        self.failures, branch.error = 0, None
        if self.left == 0:
            self.finish(FinishReason.LENGTH)
            return
        if not branch.started_at:
            self.start_clock(now)
        branch.changed_at = now
        self.set_state(BranchState.WRITING)
        self.unplaced += tokens.logprobs
        if tokens.text:
            ids = encode(tokens.text)
            finish = self.add_text(tokens.text, ids, ends_of(ids), self._scored(ids), now)
            if finish is not None:
                self.finish(finish.reason, finish.stop_text, flush=False)

    def _scored(self, ids: Sequence[int]) -> list[TokenLogprob]:
        """Return what is known of ``ids``, which spell the server's tokens: one value for each of these."""
        if self.request.asked.logprobs is None:
            return []
        values, self.unplaced = self.unplaced, []
        if len(values) > len(ids):
            values = [sum(values)]
        scored = [TokenLogprob(token, value) for token, value in zip(ids, values, strict=False)]
        return scored + self.unscored(ids[len(scored) :])

    def rewound(self, chars: int) -> None:
        """The server continues in another way after ``chars`` characters of what it wrote."""
        place = self.offset + chars
        if place < self.text.decoded:
            self.flush()
            self.cut(place)
            self.request.events.append(Cut(self.branch.index, place, len(self.buffer.ids)))
            self.spell_tail()

    def spell_tail(self) -> None:
        """Make ids of the text that has none."""
        if self.buffer.tail:
            self.settle_tail(encode(self.text_without_tokens))
            self.restart_text()

    def ask_again(self) -> None:
        """Let another request continue the branch."""
        self.set_state(BranchState.WAITING)
        self.request.restart = True

    def cut(self, chars: int) -> None:
        self.text.tokens = round(self.text.tokens * chars / max(len(self.branch.text), 1))
        super().cut(chars)

    # ---- the end

    def finish(self, reason: FinishReason, stop_text: str | None = None, flush: bool = True) -> None:
        """End the branch; nothing that still comes for it is looked at."""
        if flush:
            self.flush()
        self.leave()
        self.branch.error = None
        self.end(BranchState.DONE, reason, stop_text)

    def fail(self, error: EngineError) -> None:
        """End the branch with an error; its text stays."""
        self.flush()
        self.leave()
        self.branch.error = error
        self.end(BranchState.FAILED, FinishReason.ERROR)

    def leave(self) -> None:
        """Let go of the request that writes the branch."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.release(self)
