"""Requests to the server: which branches share one, how events reach them, and what happens when it breaks.

A branch has at most one request. Where that breaks off, each of its branches continues in another one from
the text it has, so that no text is lost or written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from ..branch import NO_LIMIT
from ..parameters import notation
from ..types import BranchState, EngineError, FinishReason, PromptProgress, RemoteError, StateChanged
from .branch import RemoteBranch, RemoteRequest
from .connection import Connection
from .dialects.base import Completion, Rewound, StreamEvent
from .problems import misnumbered, retry_notice
from .vocabulary import decode

log = logging.getLogger(__name__)


class Upstream:
    """All requests to one server. To be made and used on its event loop.

    ``when_idle`` is called when nothing is being written any more.
    """

    def __init__(self, connection: Connection, when_idle: Callable[[], None]) -> None:
        self.connection, self._when_idle = connection, when_idle
        self.active: set[RemoteRequest] = set()
        self.generated = self.prompt_tokens = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self._notified: set[str] = set()  # sentences since a token came last

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run ``work`` beside everything else."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself keeps no task alive
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def busy(self) -> bool:
        """Whether a branch is being written, or waits for that."""
        return any(each.branch.live for request in self.active for each in request.branches)

    def start(self, request: RemoteRequest) -> None:
        """Ask for every branch of a request that waits."""
        request.restart = False
        waiting = request.waiting
        if waiting:
            self.active.add(request)
        elif not request.live:
            self.active.discard(request)
        for branches in self._groups(waiting):
            upstream = UpstreamRequest(self, request, branches)
            upstream.task = self.spawn(upstream.run())
        if not self.busy:
            self._when_idle()

    def _groups(self, branches: Sequence[RemoteBranch]) -> list[list[RemoteBranch]]:
        """Return the branches of each request: equal but for their seeds, with nothing written."""
        many, found = self.connection.profile.many, list[list[RemoteBranch]]()
        equal: dict[Any, list[RemoteBranch]] = {}
        for each in branches:
            if not each.at_prompt:
                found.append([each])
                continue
            rule, sampling = each.branch.stop_rule, replace(each.branch.sampling, seed=None)
            key = sampling, each.left, each.min_tokens, rule.ignore_eog
            group = equal.get(key, [])
            if not group or len(group) >= many or each.next_seed != group[-1].next_seed + 1:
                group = equal[key] = []
                found.append(group)
            group.append(each)
        return found

    def notify(self, line: str) -> None:
        """Report a problem, once for all branches that it befalls."""
        options = self.connection.options
        if options.notify is not None and line not in self._notified:
            self._notified.add(line)
            options.notify(line)

    def count(self) -> None:
        """Count a token that came."""
        self._notified.clear()
        self.generated += 1


class UpstreamRequest:
    """One request. ``branches`` are numbered as the server numbers them; None where one has left or ended."""

    def __init__(
        self, upstream: Upstream, request: RemoteRequest, branches: Sequence[RemoteBranch]
    ) -> None:  # fmt: skip
        self.upstream, self.request = upstream, request
        connection = upstream.connection
        self.connection, self.options = connection, connection.options
        self.profile, self.dialect = connection.profile, connection.dialect
        self.branches: list[RemoteBranch | None] = list(branches)
        self.task: asyncio.Task[None] | None = None
        self._progressed = False  # a token came
        self._left_early = False  # a branch left before the server had ended it
        self._short = False  # it asks for a part of what its branches may write
        for each in branches:
            each.begin_answer(self)

    @property
    def live(self) -> list[RemoteBranch]:
        """Branches that it is still to write."""
        return [each for each in self.branches if each is not None]

    async def run(self) -> None:
        """Write the branches; where the answer breaks off, hand those back that are not at their end."""
        try:
            await self._attempt()
            if self.live:
                raise RemoteError(self.connection.where, "the answer ended before its time")
        except RemoteError as error:
            await self._broken(error)
        except Exception as error:  # a defect of ours, or an answer that nobody expected
            log.exception("a request elsewhere failed")
            for each in self.live:
                each.fail(EngineError(f"{self.profile.server}: {error!r}"))
        self.upstream.start(self.request)
        self.request.publish()

    # ---- asking

    async def _attempt(self) -> None:
        """Ask once, and read the answer. Raises RemoteError."""
        n_ctx = self.profile.info.n_ctx
        for each in self.live:
            if each.length >= n_ctx and not each.shift(n_ctx - 1):
                each.finish(FinishReason.CONTEXT)
        if not self.live:
            return
        async with self.connection.gate:
            self.branches = list(self.live)  # some may have left meanwhile
            if self.branches:
                await self._stream(self._completion())

    def _completion(self) -> Completion:
        branches, request = self.live, self.request
        first = branches[0]
        least = max(first.min_tokens - first.written, 0)
        most = first.left if first.left is None else max(first.left, 1)
        native = "min_tokens" in self.profile.stops
        # So many without an end first, and another request for the rest.
        self._short = least > 0 and not native and "ignore_eog" in self.profile.stops
        if self._short:
            most = min(least, most or least)
        return Completion(
            text=decode(first.path),
            sampling=first.branch.sampling,
            seed=first.next_seed,
            n=len(branches),
            max_tokens=most,
            min_tokens=min(least, most or NO_LIMIT) if native else 0,
            ignore_eog=first.branch.stop_rule.ignore_eog or self._short,
            request=request.asked,
            whole=len(branches) == len(request.branches) and first.at_prompt,
        )

    # ---- reading

    async def _stream(self, completion: Completion) -> None:
        request = self.request
        self.upstream.prompt_tokens += self.live[0].length
        path, body = self.dialect.encode(completion)
        async with self.connection.transport.events(path, body) as batches:
            for each in self.live:
                each.set_state(BranchState.PROMPT)
            request.publish()
            async for batch in batches:
                for data in batch:
                    for event in self.dialect.parse(data):
                        self._receive(event)
                if request.restart:
                    self.upstream.start(request)
                request.publish()
                if self._left_early and not self.live:
                    break  # which closes the connection, and ends there what nobody wants any more

    def _receive(self, event: StreamEvent) -> None:
        """Hand an event to its branch. Raises RemoteError for an unknown branch."""
        branch = self._branch(event.branch)
        if branch is None:
            return
        if isinstance(event, Rewound):
            branch.rewound(event.chars)
            return
        if event.text or event.logprobs:
            self._prompt_done()
            self._progressed = True
            self.upstream.count()
            branch.write(event)
        if event.finish is not None and branch.writer is self:
            self._ended(branch, event.finish, event.problem)

    def _branch(self, index: int) -> RemoteBranch | None:
        if 0 <= index < len(self.branches):
            return self.branches[index]
        number = len(self.branches)
        there = f"branches 0 to {number - 1} were" if number > 1 else "only branch 0 was"
        problem = f"it sends words for branch {index}, and {there} asked for"
        raise misnumbered(self.connection.where, problem)

    def _prompt_done(self) -> None:
        """The server has evaluated the prompt."""
        request = self.request
        if not request.prompt_done:
            request.prompt_done, total = True, len(request.ids)
            request.generation.prompt_done = total
            request.events.append(PromptProgress(total, total, 0))

    def _ended(self, branch: RemoteBranch, reason: FinishReason, problem: str) -> None:
        """The server has ended a branch; here it may have to continue."""
        self._remove(branch)
        match reason:
            case FinishReason.LENGTH if self._short and branch.left != 0:
                branch.ask_again()
            case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                words = problem or "it ended this branch"
                branch.fail(RemoteError(self.connection.where, words, again=False))
            case _:
                branch.finish(reason)

    # ---- breaking off

    async def _broken(self, error: RemoteError) -> None:
        """Hand each branch back after a while, to continue from what it has; or let it fail."""
        request, options, wait = self.request, self.options, error.wait
        log.warning("request %d: %s", request.generation.number, error)
        for each in self.live:
            each.failures += 1
            if not self._progressed:
                doubled = options.first_wait * 2 ** (each.failures - 1)
                wait = max(wait, min(doubled, options.longest_wait))
            if notation(each.sampling) and each.buffer.ids:
                words = f"{error.problem}; a constraint cannot go on in the middle"
                error = RemoteError(error.where, words, again=False)
            if not error.again or each.failures > options.retries:
                tries = f" ({each.failures} attempts)" if each.failures > 1 else ""
                words, status, field = error.problem + tries, error.status, error.field
                each.fail(RemoteError(error.where, words, again=False, status=status, field=field))
                continue
            each.branch.error = RemoteError(error.where, f"{error.problem}; trying again")
            each.branch.state = BranchState.WAITING  # the event comes also where it waited before
            request.events.append(StateChanged(each.branch.index, BranchState.WAITING))
        request.publish()
        if self.live:
            attempt = max(each.failures for each in self.live)
            self.upstream.notify(retry_notice(error, wait, attempt, options.retries))
            if wait:
                await asyncio.sleep(wait)
        for each in self.live:
            self._remove(each)

    # ---- leaving

    def _remove(self, branch: RemoteBranch) -> None:
        self.branches[self.branches.index(branch)] = None
        branch.writer = None

    def release(self, branch: RemoteBranch) -> None:
        """Stop writing a branch; with the last of them the connection is closed."""
        self.branches[self.branches.index(branch)] = None
        self._left_early = True
        if not self.live and self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()
