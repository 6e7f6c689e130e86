"""Requests to the server: which branches share one, how events reach them, and what happens when it breaks.

A branch has at most one request. Where that breaks off, each of its branches continues in another one from
the tokens it has, so that no text is lost or written twice.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

from ..branch import NO_LIMIT
from ..parameters import notation
from ..types import (
    BranchState,
    EngineError,
    FinishReason,
    Priority,
    PromptProgress,
    RemoteError,
    Sampling,
    StateChanged,
)
from .branch import RemoteBranch, RemoteRequest
from .connection import Connection
from .dialects.base import Completion, Dialect, PromptEvaluated, RequestId, Rewound, StreamEvent, Tokens
from .problems import misnumbered, retry_notice

log = logging.getLogger(__name__)


class Upstream:
    """All requests to one server. To be made and used on its event loop.

    ``when_idle`` is called when nothing is being written any more.
    """

    def __init__(self, connection: Connection, when_idle: Callable[[], None]) -> None:
        self.connection, self._when_idle = connection, when_idle
        self.active: set[RemoteRequest] = set()
        self.generated = self.prompt_tokens = self.reused_tokens = 0
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
        branches = (each.branch for request in self.active for each in request.branches)
        return any(branch.live and branch.state is not BranchState.PAUSED for branch in branches)

    def start(self, request: RemoteRequest) -> None:
        """Ask for every branch of a request that waits."""
        request.restart = False
        waiting = request.waiting
        if waiting:
            self.active.add(request)
        elif not request.live:
            self.active.discard(request)
        for each in waiting:
            each.prepare()
        for branches in self._groups(waiting):
            upstream = UpstreamRequest(self, request, branches)
            upstream.task = self.spawn(upstream.run())
        if not self.busy:
            self._when_idle()

    def _groups(self, branches: Sequence[RemoteBranch]) -> list[list[RemoteBranch]]:
        """Return the branches of each request: equal but for their seeds, with nothing written."""
        profile, found = self.connection.profile, list[list[RemoteBranch]]()
        equal: dict[Any, list[RemoteBranch]] = {}
        for each in branches:
            if not each.at_prompt or each.buffer.pieces:
                found.append([each])
                continue
            rule, sampling = each.branch.stop_rule, replace(each.branch.sampling, seed=None)
            key = (
                sampling, each.left, each.min_tokens, each.beyond_end, rule.ignore_eog,
                each.pending_prefix, each.barred_next,
            )  # fmt: skip
            group = equal.get(key, [])
            seeds_fit = profile.handles or bool(group) and each.next_seed == group[-1].next_seed + 1
            if not group or len(group) >= profile.many or not seeds_fit:
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

    def count(self, tokens: Tokens) -> None:
        """Count what came."""
        self._notified.clear()
        self.generated += max(len(tokens.ids), 1) if self.connection.profile.ids else 1


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
        self._id = ""  # the server's name of it, where its branches can be steered
        self._progressed = False  # a token came
        self._left_early = False  # a branch left before the server had ended it
        self._single = False  # it is for one token only, which some may not be
        self._trouble = ""  # why the answer was abandoned
        self._heard = self._alive = 0.0  # time.monotonic() of the last event, and of the last sign of life
        self._steering: asyncio.Task[None] | None = None
        self._ahead = request.asked.priority is Priority.AHEAD  # when it was asked for
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
            if not each.pending and (text := each.text_without_tokens):
                ids = await self.dialect.tokenize_continuation(text)
                if each.writer is not self:
                    continue  # a verb took it away meanwhile
                each.settle_tail(ids)
            if each.length >= n_ctx and not each.shift(n_ctx - 1):
                each.finish(FinishReason.CONTEXT)
        if not self.live:
            return
        before = time.monotonic()
        async with self.connection.gate:
            for each in self.live:
                each.note_sent(waited=time.monotonic() - before)
            self.branches = list(self.live)  # some may have left meanwhile
            if self.branches:
                completion = self._completion()
                await self._ask_about_prompt(completion)
                if self.live:
                    await self._stream(completion)

    def _completion(self) -> Completion:
        branches, request = self.live, self.request
        first, asked = branches[0], request.asked
        native = "min_tokens" in self.profile.stops
        early = first.min_tokens - first.written if not native and first.beyond_end else 0
        most = first.left if first.left is None else max(first.left, 1)
        barred = first.barred_next
        self._single = bool(barred)
        if early > 0 or barred:  # then it continues in another request
            short = 1 if barred else early
            most = min(short, most or short)
        sampling = self.profile.spelling(first.branch.sampling, first.pending_prefix)
        return Completion(
            ids=tuple(first.path),
            sampling=_barring(sampling, barred) if barred else sampling,
            seeds=tuple(each.next_seed for each in branches),
            max_tokens=most,
            min_tokens=min(max(first.min_tokens - first.written, 0), most or NO_LIMIT) if native else 0,
            ignore_eog=first.branch.stop_rule.ignore_eog or early > 0,
            request=asked,
            whole=len(branches) == len(request.branches) and first.path == request.ids,
        )

    async def _ask_about_prompt(self, completion: Completion) -> None:
        """Request the prompt's log-probabilities and the likeliest next tokens, if the request has them."""
        request, asked = self.request, self.request.asked
        scored = asked.prompt_logprobs is not None and not request.prompt_done
        if scored:
            scores = await self.dialect.score(completion.ids, asked)
            request.generation.prompt_logprobs = list(scores)
            self._prompt_done(0)
        if request.next_wanted:
            found = await self.dialect.next(request.ids, asked, request.generation.healed)
            request.generation.next_logprobs, request.next_wanted = tuple(found), False
            self._prompt_done(0)
        if scored or asked.next_logprobs is not None or asked.next_ids:
            for each in self.live:
                if each.left == 0:
                    each.finish(FinishReason.LENGTH)

    # ---- reading

    async def _stream(self, completion: Completion) -> None:
        self.upstream.prompt_tokens += len(completion.ids)
        try:
            async with asyncio.timeout(None) as limit:
                watch = self.upstream.spawn(self._watch(limit))
                try:
                    await self._read(completion)
                finally:
                    watch.cancel()
        except TimeoutError:
            raise RemoteError(self.connection.where, self._trouble) from None

    async def _read(self, completion: Completion) -> None:
        request = self.request
        path, body = self.dialect.encode(completion)
        async with self.connection.transport.events(path, body) as batches:
            for each in self.live:
                each.set_state(BranchState.PROMPT)
            request.publish()
            async for batch in batches:
                self._heard = self._alive = time.monotonic()
                for data in batch:
                    for event in self.dialect.parse(data):
                        self._receive(event)
                if request.restart:
                    self.upstream.start(request)
                request.publish()
                if self._left_early and not self.live:
                    break  # which closes the connection, and ends there what nobody wants any more

    async def _watch(self, limit: asyncio.Timeout) -> None:
        """End an answer that is silent for long, where the server is ill, refuses requests, or seems dead."""
        quiet, patience, where = self.options.quiet_seconds, self.options.patience, self.connection.where
        self._heard = time.monotonic()
        self._alive = max((each.alive_at for each in self.live), default=self._heard)
        while True:
            now = time.monotonic()
            until = max(self._heard + quiet, now + quiet / 2)
            await asyncio.sleep(max(min(until, self._alive + patience) - now, 0.01))
            if time.monotonic() - self._heard < quiet:
                continue
            health = await self.connection.check_health()
            now = time.monotonic()
            if not health.trouble:
                self._alive = now
                most = f"Waiting for up to {self.options.silent_seconds:.0f} s"
                self.upstream.notify(f"{where}: no words for {quiet:g} s, but it answers otherwise. {most}.")
                continue
            silent = now - self._alive
            if health.certain or silent >= patience:
                self._trouble = health.trouble if health.certain else f"no sign of life for {silent:.0f} s"
                limit.reschedule(asyncio.get_running_loop().time())
                return
            left = f"Giving up in {patience - silent:.0f} s"
            self.upstream.notify(f"{where}: no sign of life for {silent:.0f} s. {left}.")

    def _receive(self, event: StreamEvent) -> None:
        """Hand an event to its branch. Raises RemoteError for an unknown branch."""
        match event:
            case Tokens() | Rewound():
                branch = self._branch(event.branch)
                if branch is None:
                    return
                if branch.branch.state is BranchState.PAUSED:
                    branch.backlog.append(event)
                else:
                    self._deliver(branch, event)
            case PromptEvaluated():
                self._prompt_done(event.cached)
            case RequestId():
                self._id = event.id
                if self._ahead and self.request.asked.priority is not Priority.AHEAD:
                    self.promote()

    def _branch(self, index: int) -> RemoteBranch | None:
        if 0 <= index < len(self.branches):
            return self.branches[index]
        number = len(self.branches)
        there = f"branches 0 to {number - 1} were" if number > 1 else "only branch 0 was"
        problem = f"it sends words for branch {index}, and {there} asked for"
        raise misnumbered(self.connection.where, problem)

    def _deliver(self, branch: RemoteBranch, event: Tokens | Rewound) -> None:
        if isinstance(event, Rewound):
            branch.rewound(event.chars)
            return
        if event.text or event.ids:
            if not self.request.prompt_done:
                self._prompt_done(0)
            self._progressed = True
            self.upstream.count(event)
            branch.write(event)
        if event.finish is not None and branch.writer is self:
            self._ended(branch, event.finish, event.problem)

    def _prompt_done(self, cached: int) -> None:
        """The server has evaluated the prompt, of which it had ``cached`` tokens."""
        request, generation = self.request, self.request.generation
        total = len(request.ids)
        generation.cached_tokens = max(generation.cached_tokens, min(cached, total))
        self.upstream.reused_tokens += cached
        if not request.prompt_done:
            request.prompt_done = True
            generation.prompt_done = total
            request.events.append(PromptProgress(total, total, generation.cached_tokens))

    def _ended(self, branch: RemoteBranch, reason: FinishReason, problem: str) -> None:
        """The server has ended a branch; here it may have to continue."""
        self._remove(branch)
        profile, n_ctx = self.profile, self.profile.info.n_ctx
        early = branch.written < branch.min_tokens and "ignore_eog" in profile.stops
        match reason:
            case FinishReason.EOG if early and not branch.beyond_end and "min_tokens" not in profile.stops:
                branch.beyond_end = True
                branch.ask_again()
            case FinishReason.LENGTH if self._single and branch.left != 0:
                branch.ask_again()
            case FinishReason.LENGTH if branch.beyond_end and branch.left != 0:
                branch.beyond_end = False
                branch.ask_again()
            case FinishReason.LENGTH | FinishReason.CONTEXT if branch.left != 0 and profile.ids:
                if branch.length + 1 < n_ctx:
                    branch.finish(FinishReason.LENGTH)  # a limit of the server's
                elif branch.shift(n_ctx - 1):
                    branch.ask_again()
                else:
                    branch.finish(FinishReason.CONTEXT)
            case FinishReason.ERROR | FinishReason.STOPPED | FinishReason.KILLED:
                words = problem or "it ended this branch"
                branch.fail(RemoteError(self.connection.where, words, again=False))
            case _:
                branch.finish(reason)

    # ---- breaking off

    async def _broken(self, error: RemoteError) -> None:
        """Hand each branch back after a while, to continue from what it has; or let it fail."""
        request, now, self._id = self.request, time.monotonic(), ""
        log.warning("request %d: %s", request.generation.number, error)
        wait = 0.0
        for each in self.live:
            if each.branch.state is BranchState.PAUSED:
                each.leave()
                continue
            each.failures += 1
            each.backlog.clear()
            # A server that asks for a wait has said that it will be there afterwards.
            each.alive_at = max(each.alive_at, now + error.wait if error.status else self._alive)
            if not self._progressed:
                doubled = self.options.first_wait * 2 ** (each.failures - 1)
                wait = max(wait, min(doubled, self.options.longest_wait))
            wait = max(wait, error.wait)
            if notation(each.sampling) and each.buffer.ids:
                words = f"{error.problem}; a constraint cannot go on in the middle"
                error = RemoteError(error.where, words, again=False)
            if not error.again or self._gives_up(each, now + wait):
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
            self.upstream.notify(retry_notice(error, wait, attempt, self.options.retries))
            if wait:
                await asyncio.sleep(wait)
        for each in self.live:
            self._remove(each)

    def _gives_up(self, branch: RemoteBranch, next_attempt: float) -> bool:
        """Whether a branch has waited too long for its next token."""
        options = self.options
        return (
            branch.failures > options.retries
            or next_attempt - branch.alive_at > options.patience
            or next_attempt - branch.asked_at > 2 * options.silent_seconds
        )

    # ---- verbs of the branches

    def _remove(self, branch: RemoteBranch) -> None:
        self.branches[self.branches.index(branch)] = None
        branch.writer = None

    def release(self, branch: RemoteBranch, verb: str) -> None:
        """Stop writing a branch; with the last of them the connection is closed."""
        index = self.branches.index(branch)
        self.branches[index] = None
        self._left_early = True
        if self.live:
            self._steer(index, verb)
        elif self.task is not None and self.task is not asyncio.current_task():
            self.task.cancel()

    def pause(self, branch: RemoteBranch) -> bool:
        """Let a branch rest on the server; False where that is not possible."""
        return self._steer(self.branches.index(branch), "pause")

    def resume(self, branch: RemoteBranch) -> None:
        """Resume a paused branch with the events that arrived meanwhile."""
        self._steer(self.branches.index(branch), "resume")
        backlog, branch.backlog = branch.backlog, []
        for event in backlog:
            if branch.writer is self:
                self._deliver(branch, event)

    def promote(self) -> None:
        """Raise a prefetch request on the server to the foreground, now or once the server has answered."""
        self._tell("promote", lambda dialect: dialect.promote(self._id))

    def _steer(self, index: int, verb: str) -> bool:
        return self._tell(
            f"{verb} of branch {index}", lambda dialect: dialect.steer(self._id, index, verb)
        )  # fmt: skip

    def _tell(self, what: str, act: Callable[[Dialect], Coroutine[Any, Any, None]]) -> bool:
        """Send a verb after those that were sent before it; False where the server takes none."""
        if not self._id:
            return False
        before = self._steering

        async def send() -> None:
            if before is not None:
                await asyncio.wait({before})
            try:
                await act(self.dialect)
            except RemoteError as error:
                log.info("%s: %s", what, error)

        self._steering = self.upstream.spawn(send())
        return True


def _barring(sampling: Sampling, tokens: Sequence[int]) -> Sampling:
    """Return ``sampling`` that never chooses one of ``tokens``."""
    bias = dict(sampling.logit_bias) | dict.fromkeys(tokens, float("-inf"))
    return replace(sampling, logit_bias=tuple(bias.items()))
