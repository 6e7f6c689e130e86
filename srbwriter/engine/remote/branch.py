"""A request that another program writes: the text of its branches, their stop rules, and the verbs.

A branch is its text. What comes is added to it, and after anything that breaks off it continues from there.
Its ids are those of :mod:`.vocabulary`. Use everything here on the event loop's thread only, except for the
construction of a request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import accumulate

from ..generation import BEYOND_THE_END, Branch, Buffer, Generation
from ..rules import StopRules
from ..seeds import derive_seed
from ..types import (
    Added,
    BranchState,
    Cut,
    Done,
    Event,
    Failed,
    Finished,
    FinishReason,
    RemoteError,
    Sampling,
    StateChanged,
    Stop,
    Take,
    Text,
    for_each,
)
from .vocabulary import decode, encode, piece

SEEDS = 1 << 31
"""Every server takes the seeds below."""


class RemoteRequest:
    """A request with its branches; ``events`` have happened since readers were last notified."""

    def __init__(self, generation: Generation) -> None:
        self.generation = generation
        self.branches: list[RemoteBranch] = []
        self.events: list[Event] = []

    def add(self, sampling: Sampling, stop: Stop, seed: int) -> RemoteBranch:
        """Add a branch behind the others."""
        self.branches.append(RemoteBranch(self, sampling, stop, seed))
        self.generation.branches.append(self.branches[-1].branch)
        return self.branches[-1]

    def publish(self) -> None:
        """Publish the events since the last time, and the end of the request where no branch is live."""
        generation, branches = self.generation, self.generation.branches
        live = any(branch.live for branch in branches)
        if (self.events or not generation.done) and not live and generation.error is None:
            errors = [branch.error for branch in branches if branch.error is not None]
            # A writer may roll failed branches again later; a client gets the error at once.
            if len(errors) == len(branches) and generation.request.client:
                self.events.append(Failed(errors[0]))
            else:
                written = sum(len(branch.buffer.ids) for branch in branches)
                self.events.append(Done(len(generation.prompt_ids), 0, written))
        events, self.events = self.events, []
        generation.publish(events)

    # ---- verbs

    def cancel(self) -> None:
        for each in self.branches:
            each.stop()

    def add_branch(
        self, n: int, samplings: Sampling | tuple[Sampling, ...] | None,
        stops: Stop | tuple[Stop, ...] | None, begin: Sequence[int], without: Sequence[int],
    ) -> None:  # fmt: skip
        first = self.branches[0].branch
        for sampling, stop in zip(for_each(samplings, n), for_each(stops, n), strict=True):
            index = len(self.branches)
            asked = None if sampling is None else sampling.seed
            seed = derive_seed(first.seed, index) % SEEDS if asked is None else asked
            self.events.append(Added(index))
            self.add(sampling or first.sampling, stop or first.stop_rule, seed).begin(begin)


class RemoteBranch:
    """One branch. Each event of the server counts as one token.

    Attributes:
        base: the ids that its text follows.
        limit: tokens that it may have; None: any number.
        tokens: tokens that its text has.
        held: text that came and is not shown: a stop rule may still cut it off. Another answer follows it.
        answer: the task that writes the branch; None while none does.
        failures: attempts since the last token.
    """

    def __init__(self, request: RemoteRequest, sampling: Sampling, stop: Stop, seed: int) -> None:
        self.request = request
        self.branch = Branch(request.generation, len(request.branches), sampling, stop, seed)
        self.base: Sequence[int] = request.generation.prompt_ids
        self.answer: asyncio.Task[None] | None = None
        self.held, self.tokens, self.failures = "", 0, 0
        self._floor = 0  # characters before those that the stop rules look at
        self.apply_stop(stop)

    @property
    def chars(self) -> int:
        """Characters that are shown."""
        ends = self.branch.buffer.ends
        return ends[-1] if ends else 0

    @property
    def path(self) -> list[int]:
        """The ids that its next token follows."""
        return [*self.base, *self.branch.buffer.ids, *encode(self.held)]

    @property
    def left(self) -> int | None:
        """Tokens that it may still write; None: no limit."""
        return None if self.limit is None else max(self.limit - self.tokens, 0)

    @property
    def least(self) -> int:
        """Tokens that it has to write before it may end by itself."""
        least = max(self.min_tokens - self.tokens, 0)
        return least if self.left is None else min(least, self.left)

    @property
    def next_seed(self) -> int:
        """The seed of the next request: another one than the last, which would draw the same numbers."""
        seed = self.branch.seed % SEEDS
        return derive_seed(seed, self.tokens) % SEEDS if self.tokens else seed

    # ---- stop rules

    def apply_stop(self, stop: Stop, more: int | None = None) -> None:
        """Apply a stop rule, with ``more`` tokens from here if that is given. Held text is dropped."""
        self.branch.stop_rule = stop
        self.limit = stop.max_tokens if more is None else self.tokens + more
        self.min_tokens = stop.min_tokens
        self.held, self._rules = "", StopRules(stop, self.branch.text, self._floor)

    # ---- what the server writes

    def receive(self, text: str) -> None:
        """Add a token's text, show what no stop rule may still cut off, and end where one says so."""
        branch, now = self.branch, time.monotonic()
        self.failures, branch.error = 0, None
        branch.started_at = branch.started_at or now
        branch.changed_at = now
        self.set_state(BranchState.WRITING)
        self.tokens += 1
        window, may_end = self.held + text, self.tokens >= self.min_tokens
        keep, ending = self._rules.judge(window, text, self.chars, may_end, self.tokens)
        keep = max(keep, 0)
        if ending is not None:
            self.held = window[:keep]
            self.finish(ending.reason, ending.stop_text)
        else:
            self.held = window[keep:]
            self.show(window[:keep])

    def show(self, text: str, ids: Sequence[int] | None = None) -> None:
        """Add text to what readers see, with the ids that spell it."""
        if text:
            ids, buffer = encode(text) if ids is None else ids, self.branch.buffer
            buffer.ends.extend(list(accumulate((len(piece(token)) for token in ids), initial=self.chars))[1:])
            buffer.ids.extend(ids)
            buffer.pieces.append(text)
            self.request.events.append(Text(self.branch.index, text, tuple(ids)))

    # ---- the end

    def set_state(self, state: BranchState) -> None:
        if self.branch.state is not state:
            self.branch.state = state
            self.request.events.append(StateChanged(self.branch.index, state))

    def finish(
        self, reason: FinishReason, stop_text: str | None = None, error: RemoteError | None = None
    ) -> None:  # fmt: skip
        """End the branch; its text stays, and nothing that still comes for it is looked at."""
        branch, held, self.held = self.branch, self.held, ""
        self.show(held)
        self._leave()
        branch.error, branch.finish_reason, branch.stop_text = error, reason, stop_text
        branch.state = BranchState.DONE if error is None else BranchState.FAILED
        words, ids = None if error is None else error.words, len(branch.buffer.ids)
        self.request.events.append(Finished(branch.index, reason, ids, stop_text, problem=words))

    def fail(self, error: RemoteError, retries: int = 0) -> int:
        """Let it wait for another attempt, or end it with the error after ``retries`` of them.

        Return the attempts so far; 0 where there is no other.
        """
        self.failures += 1
        problem = error.problem
        if error.again and self.failures <= retries:
            self.branch.error = RemoteError(error.where, f"{problem}; trying again")
            self.set_state(BranchState.WAITING)
            return self.failures
        problem += f" ({self.failures} attempts)" if self.failures > 1 else ""
        final = RemoteError(error.where, problem, again=False, status=error.status, field=error.field)
        self.finish(FinishReason.ERROR, error=final)
        return 0

    def _leave(self) -> None:
        """Let go of the answer that writes the branch; with the last of them its connection is closed."""
        answer, self.answer = self.answer, None
        if answer is not None and not any(each.answer is answer for each in self.request.branches):
            answer.cancel()

    def _ask_again(self) -> None:
        """Request the branch from the end of its visible text."""
        branch = self.branch
        self._leave()
        self.failures = 0
        branch.finish_reason = branch.stop_text = branch.error = None
        self.set_state(BranchState.WAITING)

    # ---- verbs

    def stop(self) -> None:
        if self.branch.live:
            self.finish(FinishReason.STOPPED)

    def kill(self) -> None:
        branch = self.branch
        if branch.state is not BranchState.FAILED and branch.finish_reason is not FinishReason.KILLED:
            self.finish(FinishReason.KILLED)

    def reroll(
        self, seed: int | None, sampling: Sampling | None, stop: Stop | None, begin: Sequence[int],
        without: Sequence[int],
    ) -> None:  # fmt: skip
        branch = self.branch
        branch.sampling = sampling or branch.sampling
        self._back_to(0, seed, stop or branch.stop_rule)
        branch.started_at = branch.changed_at = 0.0
        self.begin(begin)

    def rewind(self, tokens: int | None, chars: int | None, sentences: int | None, seed: int | None) -> None:
        kept = self.branch.chars_before(tokens, chars, sentences)
        self._back_to(kept, seed, self.branch.stop_rule)

    def _back_to(self, chars: int, seed: int | None, stop: Stop) -> None:
        """Continue from the first ``chars`` characters, at which the stop rules do not look."""
        branch, old, text = self.branch, self.branch.buffer, self.branch.text
        branch.seed = derive_seed(branch.seed, old.revision + 1) % SEEDS if seed is None else seed
        branch.buffer = Buffer(old.revision + 1)
        self.tokens = round(self.tokens * chars / max(len(text), 1))
        self.request.events.append(Cut(branch.index, 0, 0))
        self.show(text[:chars])
        self._floor = self.chars
        self.apply_stop(stop)
        self._ask_again()

    def begin(self, ids: Sequence[int]) -> None:
        """Begin the text with ``ids``; the rule's number of tokens comes after them."""
        self.show(decode(ids), ids)
        self.tokens, self._floor = len(ids), self.chars
        self.apply_stop(self.branch.stop_rule, self.branch.stop_rule.max_tokens)

    def take_up(self, take: Take) -> None:
        """Restore an earlier attempt."""
        self.begin(encode(take.text))
        self.request.events.clear()
        self.branch.finish_reason, self.branch.state = take.finish_reason, BranchState.DONE

    def extend(self, stop: Stop | int | None) -> None:
        branch = self.branch
        if branch.live and stop is None:
            return
        if not branch.live:
            self._floor = self.chars
        if isinstance(stop, Stop):
            self.apply_stop(stop)
        else:
            self.apply_stop(branch.stop_rule, branch.stop_rule.max_tokens if stop is None else stop)
        if branch.finish_reason is FinishReason.EOG:  # else it would choose the end again at once
            self.min_tokens = max(self.min_tokens, self.tokens + BEYOND_THE_END)
        self._ask_again()

    def change(self, sampling: Sampling | None, stop: Stop | None = None) -> None:
        if sampling is not None:
            self.branch.sampling = sampling
            self.branch.seed = self.branch.seed if sampling.seed is None else sampling.seed
        if stop is not None:
            self.apply_stop(stop)
        if self.branch.live:
            self._ask_again()

    def set_prompt(self, prompt: Sequence[int]) -> None:
        self.base = prompt or self.request.generation.prompt_ids
        if self.branch.live:
            self._ask_again()
