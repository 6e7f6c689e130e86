"""The side of a branch whose text another program writes, and the verbs on it.

State, text and stop rules are those of a local branch (:mod:`srbwriter.engine.branch`); the addition is the
request that writes it. Use everything here on the event loop's thread only, except for the construction of a
request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate

from ..branch import BranchWriter, ServedRequest
from ..generation import Branch, Generation, listener_error
from ..seeds import derive_seed
from ..steering import Steering
from ..text import TokenPieces
from ..types import BranchState, Cut, EngineError, Failed, FinishReason, Priority, TokenLogprob
from .dialects import Tokens
from .vocabulary import PIECES, encode, piece

SEEDS = 1 << 31
"""Every server takes the seeds below."""


class RemoteRequest(ServedRequest["RemoteBranch"]):
    """A request with its branches.

    Attributes:
        prompt_done: the server has evaluated the prompt.
        dead: the whole request has failed.
        engine: what keeps the connection open, held while the request is being written.
    """

    engine: object = None

    def __init__(self, generation: Generation) -> None:
        super().__init__(generation, list(generation.prompt_ids), b"")
        self.prompt_done = self.dead = False

    def make_writer(self, branch: Branch, pieces: TokenPieces) -> RemoteBranch:
        return RemoteBranch(self, branch, pieces)

    def derive_seed(self, seed: int, k: int) -> int:
        return derive_seed(seed, k) % SEEDS

    def publish(self, obeyed: bool = False) -> None:
        """Publish the events since the last time; ``obeyed``: after a command, which may end the request."""
        if not self.live:
            self.engine = None
        if (self.events or obeyed) and not self.live and not self.dead:
            failed = [b.branch.error for b in self.branches if b.branch.state is BranchState.FAILED]
            # A writer may roll failed branches again later; a client gets the error at once.
            if len(failed) == len(self.branches) and self.asked.client:
                self.dead = True
                self.events.append(Failed(failed[0] or EngineError("it failed")))
            else:
                self.events.append(self.completed())
        events, self.events = self.events, []
        self.generation.publish(events)


class RemoteBranch(BranchWriter):
    """One branch. Each event of the server counts as one token.

    Attributes:
        let_go: tells the answer that writes the branch to stop that; None while none does.
        offset: characters and tokens of its text before those of the answer.
        failures: attempts since the last token.
        unplaced: log-probabilities of tokens whose text is still to come.
    """

    request: RemoteRequest

    def __init__(self, request: RemoteRequest, branch: Branch, pieces: TokenPieces) -> None:
        self.let_go: Callable[[RemoteBranch], None] | None = None
        self.offset, self.failures = (0, 0), 0
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

    def begin_answer(self, let_go: Callable[[RemoteBranch], None]) -> None:
        """Note that an answer writes the branch from here on."""
        self.let_go, self.offset = let_go, (self.text.decoded, self.written)
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
            ends = list(accumulate(len(piece(token)) for token in ids))
            finish = self.add_text(tokens.text, ids, ends, self._scored(ids), now)
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

    def rewound(self, chars: int, tokens: int) -> None:
        """The server continues in another way after ``chars`` characters, its first ``tokens`` tokens."""
        place = self.offset[0] + chars
        if place < self.text.decoded:
            self.flush()
            self.cut(place)
            self.request.events.append(Cut(self.branch.index, place, len(self.buffer.ids)))
            self.spell_tail()
            self.text.tokens = self.offset[1] + tokens

    def spell_tail(self) -> None:
        """Make ids of the text that has none."""
        if self.buffer.tail:
            self.settle_tail(encode(self.text_without_tokens))
            self.restart_text()

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
        """Let go of the answer that writes the branch."""
        let_go, self.let_go = self.let_go, None
        if let_go is not None:
            let_go(self)


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
        if writer.branch.live and writer.let_go is not None:
            writer.leave()
            self.revive(writer)
