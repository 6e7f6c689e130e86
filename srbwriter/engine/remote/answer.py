"""Requests to the server: which branches share one, how events reach them, and what happens when it breaks.

A branch has at most one request. Where that breaks off, each of its branches continues in another one from
the text it has, so that no text is lost or written twice.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..branch import NO_LIMIT
from ..parameters import notation
from ..types import BranchState, EngineError, FinishReason, PromptProgress, RemoteError, StateChanged
from .branch import RemoteBranch, RemoteRequest
from .dialects import Completion, Dialect, Profile, Rewound, StreamEvent
from .transport import misnumbered, retry_notice
from .vocabulary import decode

log = logging.getLogger(__name__)


class Answers:
    """All requests to one server. To be made and used on its event loop.

    ``engine`` gives the engine while somebody holds it; a request that is being written does.
    """

    engine: Callable[[], object]

    def __init__(self, dialect: Dialect, profile: Profile) -> None:
        self.dialect, self.profile = dialect, profile
        self.transport, self.options = dialect.transport, dialect.options
        most = self.options.max_requests
        self.gate = asyncio.Semaphore(min(most, profile.requests or most))  # under way at once
        self.active: set[RemoteRequest] = set()
        self.generated = self.prompt_tokens = 0
        self.tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive
        self.notified: set[str] = set()  # sentences since a token came last

    def start(self, request: RemoteRequest) -> None:
        """Ask for every branch of a request that waits."""
        waiting = [
            each for each in request.branches
            if each.branch.state is BranchState.WAITING and each.let_go is None
        ]  # fmt: skip
        if waiting:
            self.active.add(request)
            request.engine = self.engine()
        elif not request.live:
            self.active.discard(request)
        for branches in self._groups(waiting):
            answer = Answer(self, request, branches)
            answer.task = asyncio.get_running_loop().create_task(answer.run())
            self.tasks.add(answer.task)
            answer.task.add_done_callback(self.tasks.discard)

    def _groups(self, branches: Sequence[RemoteBranch]) -> list[list[RemoteBranch]]:
        """Return the branches of each request: equal but for their seeds, with nothing written."""
        found: list[list[RemoteBranch]] = []
        equal: dict[Any, list[RemoteBranch]] = {}
        for each in branches:
            sampling = replace(each.branch.sampling, seed=None)
            key = sampling, each.left, each.min_tokens, each.ignore_eog, each.at_prompt
            group = equal.get(key)
            full = group is None or not each.at_prompt or len(group) >= self.profile.many
            if group is None or full or each.next_seed != group[-1].next_seed + 1:
                group = equal[key] = []
                found.append(group)
            group.append(each)
        return found


class Answer:
    """One request, and what comes of it.

    ``branches`` are numbered as the server numbers them; None where one has left or ended.
    """

    task: asyncio.Task[None]

    def __init__(
        self, answers: Answers, request: RemoteRequest, branches: Sequence[RemoteBranch]
    ) -> None:  # fmt: skip
        self.answers, self.request = answers, request
        self.where = answers.transport.where
        self.branches: list[RemoteBranch | None] = list(branches)
        self._progressed = False  # a token came
        self._left_early = False  # a branch left before the server had ended it
        self._short = False  # it asks for a part of what its branches may write
        for each in branches:
            each.begin_answer(self._release)

    @property
    def live(self) -> list[RemoteBranch]:
        """Branches that it is still to write."""
        return [each for each in self.branches if each is not None]

    async def run(self) -> None:
        """Write the branches; where the answer breaks off, hand those back that are not at their end."""
        try:
            n_ctx = self.answers.profile.info.n_ctx
            for each in self.live:
                if each.length >= n_ctx and not each.shift(n_ctx - 1):
                    each.finish(FinishReason.CONTEXT)
            async with self.answers.gate:
                self.branches = list(self.live)  # some may have left meanwhile
                if self.branches:
                    await self._stream()
            if self.live:
                raise RemoteError(self.where, "the answer ended before its time")
        except RemoteError as error:
            await self._broken(error)
        except Exception as error:  # a defect of ours, or an answer that nobody expected
            log.exception("a request elsewhere failed")
            for each in self.live:
                each.fail(EngineError(f"{self.answers.profile.server}: {error!r}"))
        self.answers.start(self.request)
        self.request.publish()

    def _completion(self) -> Completion:
        branches, lacks = self.live, self.answers.profile.lacks
        first = branches[0]
        least = max(first.min_tokens - first.written, 0)
        most = first.left if first.left is None else max(first.left, 1)
        # So many without an end first, and another request for the rest.
        self._short = least > 0 and "min_tokens" in lacks and "ignore_eog" not in lacks
        if self._short:
            most = min(least, most or least)
        return Completion(
            text=decode(first.path),
            sampling=first.branch.sampling,
            seed=first.next_seed,
            n=len(branches),
            max_tokens=most,
            min_tokens=min(least, most or NO_LIMIT),
            ignore_eog=first.ignore_eog or self._short,
            request=self.request.asked,
            whole=len(branches) == len(self.request.branches) and first.at_prompt,
        )

    async def _stream(self) -> None:
        """Ask once, and read the answer. Raises RemoteError."""
        request, dialect = self.request, self.answers.dialect
        self.answers.prompt_tokens += self.live[0].length
        path, body = dialect.encode(self._completion())
        async with self.answers.transport.events(path, body) as batches:
            for each in self.live:
                each.set_state(BranchState.PROMPT)
            request.publish()
            async for batch in batches:
                for data in batch:
                    for event in dialect.parse(data):
                        self._receive(event)
                request.publish()
                if self._left_early and not self.live:
                    break  # which closes the connection, and ends there what nobody wants any more

    def _receive(self, event: StreamEvent) -> None:
        """Hand an event to its branch. Raises RemoteError for an unknown branch."""
        index, number = event.branch, len(self.branches)
        if not 0 <= index < number:
            there = f"branches 0 to {number - 1} were" if number > 1 else "only branch 0 was"
            raise misnumbered(self.where, f"it sends words for branch {index}, and {there} asked for")
        branch = self.branches[index]
        if branch is None:
            return
        if isinstance(event, Rewound):
            branch.rewound(event.chars, event.tokens)
            return
        if event.text or event.logprobs:
            self._count()
            branch.write(event)
        if event.finish is not None and self.branches[index] is branch:
            self._ended(branch, event.finish, event.problem)

    def _count(self) -> None:
        """Note that a token came, and so that the server has evaluated the prompt."""
        self._progressed = True
        self.answers.generated += 1
        self.answers.notified.clear()
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
                branch.set_state(BranchState.WAITING)
                self.answers.start(self.request)
            case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                branch.fail(RemoteError(self.where, problem or "it ended this branch", again=False))
            case _:
                branch.finish(reason)

    async def _broken(self, error: RemoteError) -> None:
        """Hand each branch back after a while, to continue from what it has; or let it fail."""
        request, options, wait = self.request, self.answers.options, error.wait
        log.warning("request %d: %s", request.generation.number, error)
        for each in self.live:
            each.failures += 1
            problem, again = error.problem, error.again and each.failures <= options.retries
            if notation(each.sampling) and each.buffer.ids:
                problem, again = f"{problem}; a constraint cannot go on in the middle", False
            if not again:
                problem += f" ({each.failures} attempts)" if each.failures > 1 else ""
                status, field = error.status, error.field
                each.fail(RemoteError(self.where, problem, again=False, status=status, field=field))
                continue
            if not self._progressed:
                wait = max(wait, min(options.first_wait * 2 ** (each.failures - 1), options.longest_wait))
            each.branch.error = RemoteError(self.where, f"{problem}; trying again")
            each.branch.state = BranchState.WAITING  # the event comes also where it waited before
            request.events.append(StateChanged(each.branch.index, BranchState.WAITING))
        request.publish()
        if self.live:
            attempt = max(each.failures for each in self.live)
            line = retry_notice(error, wait, attempt, options.retries)
            if options.notify is not None and line not in self.answers.notified:
                self.answers.notified.add(line)  # once for all branches that it befalls
                options.notify(line)
            await asyncio.sleep(wait)
        for each in self.live:
            self._remove(each)

    def _remove(self, branch: RemoteBranch) -> None:
        self.branches[self.branches.index(branch)] = None
        branch.let_go = None

    def _release(self, branch: RemoteBranch) -> None:
        """Stop writing a branch; with the last of them the connection is closed."""
        self.branches[self.branches.index(branch)] = None
        self._left_early = True
        if not self.live and self.task is not asyncio.current_task():
            self.task.cancel()
