"""One request to the server, and what comes of it.

A branch has at most one answer. Where that breaks off, each of its branches continues in another one from the
text that is shown, so that no text is lost or written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..parameters import notation
from ..types import BranchState, EngineError, FinishReason, RemoteError, StateChanged
from ..window import fit
from .branch import RemoteBranch, RemoteRequest
from .dialects import Completion, Tokens
from .transport import misnumbered
from .vocabulary import decode

if TYPE_CHECKING:
    from .engine import RemoteEngine

log = logging.getLogger(__name__)


class Answer:
    """``branches`` are numbered as the server numbers them; those that have left or ended have no answer."""

    task: asyncio.Task[None]

    def __init__(
        self, engine: RemoteEngine, request: RemoteRequest, branches: Sequence[RemoteBranch]
    ) -> None:  # fmt: skip
        self.engine, self.request, self.dialect = engine, request, engine.dialect
        self.branches = branches
        self._progressed = False  # a token came
        self._left_early = False  # a branch left before the server had ended it
        self._short = False  # it asks for a part of what its branches may write
        for each in branches:
            each.begin_answer(self)

    @property
    def live(self) -> list[RemoteBranch]:
        """Branches that it is still to write."""
        return [each for each in self.branches if each.answer is self]

    def leave(self) -> None:
        """Note that a branch has left; with the last of them the connection is closed."""
        self._left_early = True
        if not self.live and self.task is not asyncio.current_task():
            self.task.cancel()

    async def run(self) -> None:
        """Write the branches; where the answer breaks off, hand those back that are not at their end."""
        try:
            for each in self.live:
                if each.left == 0:
                    each.finish(FinishReason.LENGTH)
            self.branches = self.live
            if self.branches:
                await self._stream()
            if self.live:
                raise RemoteError(self.dialect.where, "the answer ended before its time")
        except RemoteError as error:
            await self._break_off(error)
        except Exception as error:  # a defect of ours, or an answer that nobody expected
            log.exception("a request elsewhere failed")
            for each in self.live:
                each.fail(EngineError(f"{self.engine.profile.server}: {error!r}"))
        self.engine.write(self.request)
        self.request.publish()

    async def _stream(self) -> None:
        """Ask once, and read the answer. Raises RemoteError."""
        request, completion = self.request, self._completion()
        if completion is None:
            for each in self.live:
                each.finish(FinishReason.CONTEXT)
            return
        path, body = self.dialect.encode(completion)
        async with self.dialect.transport.events(path, body) as batches:
            for each in self.live:
                each.set_state(BranchState.PROMPT)
            request.publish()
            async for batch in batches:
                for data in batch:
                    for event in self.dialect.parse(data):
                        self._receive(event)
                request.publish()
                if self._left_early and not self.live:
                    break  # which closes the connection, and ends there what nobody wants any more

    def _completion(self) -> Completion | None:
        """Return what to ask for; None where the context is full."""
        branches, lacks, n_ctx = self.live, self.engine.profile.lacks, self.engine.n_ctx
        first, asked = branches[0], self.request.asked
        path = [*first.base, *first.branch.buffer.ids]
        if len(path) >= n_ctx:
            if asked.overflow != "shift":
                return None
            path, self.request.generation.truncated = fit(path, asked, n_ctx), True
        self.engine.prompt_tokens += len(path)
        least, most = max(first.min_tokens - first.tokens, 0), first.left
        # So many without an end first, and another request for the rest.
        self._short = least > 0 and "min_tokens" in lacks and "ignore_eog" not in lacks
        if self._short:
            most = min(least, most or least)
        return Completion(
            text=decode(path),
            sampling=first.branch.sampling,
            seed=first.next_seed,
            n=len(branches),
            max_tokens=most,
            min_tokens=least if most is None else min(least, most),
            ignore_eog=first.branch.stop_rule.ignore_eog or self._short,
            request=asked,
            whole=len(branches) == len(self.request.branches) and first.at_prompt,
        )

    def _receive(self, event: Tokens) -> None:
        """Hand an event to its branch. Raises RemoteError for an unknown branch."""
        index, number = event.branch, len(self.branches)
        if not 0 <= index < number:
            there = f"branches 0 to {number - 1} were" if number > 1 else "only branch 0 was"
            problem = f"it sends words for branch {index}, and {there} asked for"
            raise misnumbered(self.dialect.where, problem)
        branch = self.branches[index]
        if branch.answer is not self:
            return
        if event.back_to is not None:
            branch.go_back(*event.back_to)
        if event.text or event.logprobs:
            self._progressed = True
            self.engine.count_token()
            self.request.note_prompt()
            branch.receive(event)
        if event.finish is not None and branch.answer is self:
            branch.answer = None
            match event.finish:
                case FinishReason.LENGTH if self._short and branch.left != 0:
                    branch.ask_again()
                    self.engine.write(self.request)
                case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                    problem = event.problem or "it ended this branch"
                    branch.fail(RemoteError(self.dialect.where, problem, again=False))
                case reason:
                    branch.finish(reason)

    async def _break_off(self, error: RemoteError) -> None:
        """Hand each branch back after a while, to continue from what it has; or let it fail."""
        where, options, wait = self.dialect.where, self.engine.options, error.wait
        log.warning("request %d: %s", self.request.generation.number, error)
        for each in self.live:
            each.failures += 1
            problem, again = error.problem, error.again and each.failures <= options.retries
            if notation(each.branch.sampling) and each.branch.buffer.ids:
                problem, again = f"{problem}; a constraint cannot go on in the middle", False
            if again:
                each.branch.error = RemoteError(where, f"{problem}; trying again")
                each.branch.state = BranchState.WAITING  # the event comes also where it waited before
                self.request.events.append(StateChanged(each.branch.index, BranchState.WAITING))
            else:
                problem += f" ({each.failures} attempts)" if each.failures > 1 else ""
                status, field = error.status, error.field
                each.fail(RemoteError(where, problem, again=False, status=status, field=field))
        self.request.publish()
        if self.live:
            attempt = max(each.failures for each in self.live)
            if not self._progressed:
                wait = max(wait, min(options.first_wait * 2 ** (attempt - 1), options.longest_wait))
            self.engine.tell_once(error, wait, attempt)
            await asyncio.sleep(wait)
        for each in self.live:
            each.answer = None
