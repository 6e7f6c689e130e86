"""The side of a branch whose tokens another program computes.

State, text and stop rules are those of a local branch (:mod:`srbwriter.engine.branch`); the additions are the
request that writes a branch, and the times that bound how long it waits. Use everything here on the event
loop's thread only, except for the construction of a request.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Protocol

from ..branch import BranchWriter, ServedRequest
from ..generation import Branch, Generation
from ..seeds import derive_seed
from ..text import TokenPieces
from ..types import BranchState, Cut, EngineError, Failed, FinishReason, Priority
from .dialects.base import Rewound, Tokens

SEEDS = 1 << 31
"""Every server takes the seeds below."""


class AnswerWriter(Protocol):
    """The request to the server that writes a branch, as far as the branch knows it."""

    def release(self, branch: RemoteBranch, verb: str) -> None:
        """Let go of a branch; the server is sent ``verb``."""
        ...

    def pause(self, branch: RemoteBranch) -> bool:
        """Pause a branch on the server; false where it cannot."""
        ...

    def resume(self, branch: RemoteBranch) -> None:
        """Let a paused branch continue."""
        ...

    def promote(self) -> None:
        """Serve the request sooner from now on."""
        ...


class RemoteRequest(ServedRequest["RemoteBranch"]):
    """A request with its branches.

    Attributes:
        estimated: the ids are pseudo tokens, so tokens are counted as they come.
        pieces: the known bytes of tokens.
        next_wanted: the likeliest next tokens of the prompt have yet to be requested.
        prompt_done: the server has evaluated the prompt.
        restart: a branch has to be requested once more.
        dead: the whole request has failed.
    """

    def __init__(self, generation: Generation, estimated: bool, pieces: TokenPieces) -> None:
        super().__init__(generation, list(generation.prompt_ids), generation.healed.encode())
        self.estimated, self.pieces = estimated, pieces
        self.next_wanted = self.asked.next_logprobs is not None or bool(self.asked.next_ids)
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
    """One branch.

    Attributes: writer: the upstream request that writes it now. resting: it is paused, while its upstream
    request continues. backlog: events that arrived while it was paused. offset: characters of its text before
    those of the upstream request. repeated: characters of the upstream request that repeat its text (token
    healing). failures: attempts since the last token. asked_at: since when it waits for a token, in seconds
    of time.monotonic. alive_at: since when it waits for any sign of life. beyond_end: it is to continue where
    the model ended its text. heals: the first tokens must spell the end of the prompt that token healing
    removed; else that is sent.
    """

    request: RemoteRequest

    def __init__(self, request: RemoteRequest, branch: Branch, pieces: TokenPieces) -> None:
        self.writer: AnswerWriter | None = None
        self.resting = False
        self.backlog: list[Tokens | Rewound] = []
        self.offset = self.repeated = self.failures = 0
        self.asked_at = self.alive_at = 0.0
        self.beyond_end, self.heals = False, True
        super().__init__(request, branch, pieces)

    @property
    def written(self) -> int:
        return self.text.tokens if self.request.estimated else super().written

    @property
    def sampling_rule(self) -> tuple[object, ...]:
        return *super().sampling_rule, self.limit

    @property
    def barred_next(self) -> tuple[int, ...]:
        """Tokens that may not come next."""
        return tuple(sorted(self.barred.get(len(self.buffer.ids), ())))

    @property
    def next_seed(self) -> int:
        """The seed of the next request: another one than the last, which would draw the same numbers."""
        seed = self.branch.seed % SEEDS
        return self.request.derive_seed(seed, self.written) if self.buffer.ids or self.buffer.pieces else seed

    # ---- asking

    def prepare(self) -> None:
        """Note what the next request asks for, before it is sent."""
        if self.heals and self.request.pending_text and self.at_prompt and not self.buffer.pieces:
            self.spell_prompt_again()

    def note_sent(self, waited: float) -> None:
        """A request is sent now; the ``waited`` seconds before that, for others to end, do not count."""
        if self.failures:
            self.asked_at += waited
            self.alive_at += waited
        else:
            self.asked_at = self.alive_at = time.monotonic()

    def begin_answer(self, writer: AnswerWriter) -> None:
        """Note that ``writer`` writes the branch from here on."""
        self.writer, self.repeated = writer, self.pending
        self.offset = len(self.branch.text) - self.pending

    # ---- what the server writes

    def write(self, tokens: Tokens) -> None:
        """Add tokens to the branch and apply the stop rules."""
        branch, now = self.branch, time.monotonic()
        self.failures, self.asked_at, self.alive_at = 0, now, now
        branch.error = None
        if self.left == 0 and tokens.ids:  # words alone belong to tokens that have come
            self.finish(FinishReason.LENGTH)
            return
        if not branch.started_at:
            self.start_clock(now)
        branch.changed_at = now
        self.set_state(BranchState.WRITING)
        ids, text = tokens.ids, tokens.text
        ends = self._ends(text, ids)
        stopped = next((k for k, token in enumerate(ids) if token in self.stop_ids), len(ids))
        if stopped < len(ids):
            ids, ends = ids[:stopped], ends[:stopped]
            text = text[: ends[-1] if ends else 0]
        prefix = self.pending_prefix
        if not (text.startswith(prefix) or prefix.startswith(text)):
            self._send_as_tokens()
            return
        finish = self.add_text(text, ids, ends, tokens.logprobs[:stopped], now) if text or ids else None
        if finish is not None:
            self.finish(finish.reason, finish.stop_text, flush=False)
        elif stopped < len(tokens.ids):
            self.finish(FinishReason.STOP)

    def _ends(self, text: str, ids: Sequence[int]) -> Sequence[int]:
        """Return the characters of ``text`` after each id; all of them where that is not known."""
        if len(ids) > 1:
            known = self.request.pieces.text
            try:
                spelt = [known[token] or "" for token in ids]
            except KeyError:
                spelt = []
            if len(spelt) == len(ids) and "".join(spelt) == text:
                return list(accumulate(map(len, spelt)))
        return [len(text)] * len(ids)

    def count_tokens(self, ids: Sequence[int]) -> int:
        return 1 if self.request.estimated else len(ids)

    def rewound(self, chars: int) -> None:
        """The server continues in another way after ``chars`` characters of what it wrote."""
        place = self.offset + max(chars, self.repeated)
        if place < self.text.decoded - self.hidden:
            self.flush()
            self.cut(place)
            self.request.events.append(Cut(self.branch.index, place, len(self.buffer.ids)))
        if chars < self.repeated:
            self._send_as_tokens()

    def _send_as_tokens(self) -> None:
        """Ask again, and send the end of the text that the server was to spell as tokens."""
        self.leave("kill")
        self.flush()
        self.restart_text()
        self.heals = False
        self.ask_again()

    def ask_again(self) -> None:
        """Let another request continue the branch."""
        self.set_state(BranchState.WAITING)
        self.request.restart = True

    def cut(self, chars: int) -> None:
        if self.request.estimated:
            self.text.tokens = round(self.text.tokens * chars / max(len(self.branch.text), 1))
        super().cut(chars)

    def settle_tail(self, ids: Sequence[int]) -> None:
        super().settle_tail(ids)
        self.restart_text()

    def restart_attempt(self) -> None:
        self.heals = True
        super().restart_attempt()

    def restart_sampling(self) -> None:
        self.beyond_end = False

    # ---- the end

    def finish(self, reason: FinishReason, stop_text: str | None = None, flush: bool = True) -> None:
        """End the branch; nothing that still comes for it is looked at."""
        if flush:
            self.flush()
        self.leave("kill" if reason is FinishReason.KILLED else "stop")
        self.branch.error = None
        self.end(BranchState.DONE, reason, stop_text)

    def fail(self, error: EngineError) -> None:
        """End the branch with an error; its text stays."""
        self.flush()
        self.leave()
        self.branch.error = error
        self.end(BranchState.FAILED, FinishReason.ERROR)

    def leave(self, verb: str = "stop") -> None:
        """Let go of the request that writes the branch; the server is sent ``stop`` or ``kill``."""
        writer, self.writer = self.writer, None
        self.resting = False
        self.backlog.clear()
        if writer is not None:
            writer.release(self, verb)
