"""A :class:`~srbwriter.engine.backend.Backend` whose model runs on a server.

One thread with an event loop talks to the server and is the only one that writes into branches; every public
method may be called from any thread but that one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import aclosing
from dataclasses import replace
from random import Random
from typing import Any, cast

from ..backend import WithoutCache, close_at_exit
from ..capabilities import Capabilities
from ..checks import Checks
from ..generation import BranchCommand, Generation
from ..parameters import validate
from ..prompt import read_prompt
from ..types import (
    BranchState,
    Cancelled,
    EngineClosed,
    EngineStats,
    FinishReason,
    ModelInfo,
    NotSupported,
    Priority,
    RemoteError,
    Request,
    Sampling,
    Stop,
    for_each,
)
from ..window import fit
from .branch import SEEDS, RemoteBranch, RemoteRequest
from .dialects import ENDS, RemoteDialect, connect
from .options import RemoteOptions
from .transport import IS_IT_AN_ENGINE, Transport
from .vocabulary import SIZE, LetterVocabulary

log = logging.getLogger(__name__)

_LOOK = 0.1  # seconds between looks at whether a connection is still wanted
_PLAIN: Mapping[type, object] = {Request: Request(""), Sampling: Sampling(), Stop: Stop()}
_SILENTLY = frozenset({"heal", "logprobs", "min_tokens", "ignore_eog"})
"""What may be missing in silence: clients that always ask for probabilities get none, texts may end early."""


class RemoteEngine(LetterVocabulary, WithoutCache):
    """A connection. Make one with :meth:`connect`.

    Attributes:
        dialect: how the server is asked, and what it can do.
        generated: tokens that came, of all requests; ``prompt_tokens`` were sent.
    """

    dialect: RemoteDialect
    info: ModelInfo
    capabilities: Capabilities
    n_ctx: int

    def __init__(self, options: RemoteOptions) -> None:
        self.options, self.transport, self.max_branches = options, Transport(options), options.max_branches
        self.generated = self.prompt_tokens = 0
        self._checks = Checks(SIZE, options.max_branches, self._check_rules)
        self._told = 0  # attempts since the last token of which the caller knows
        self._numbers, self._chance = itertools.count(1), Random(options.seed)
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._loop, self._ended = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="srbwriter-remote", daemon=True)
        self._closing = False

    # ---- life

    @classmethod
    def connect(
        cls, options: RemoteOptions, on_progress: Callable[[float], bool] | None = None
    ) -> RemoteEngine:  # fmt: skip
        """Connect, and find out which program the server is; ``on_progress`` cancels by returning False.

        Raises RemoteError for a server that does not answer as one, InvalidRequest for an invalid address,
        Cancelled.
        """
        engine = cls(options)
        engine._thread.start()
        try:
            connecting = asyncio.run_coroutine_threadsafe(connect(engine.transport), engine._loop)
            while not wait((connecting,), _LOOK).done:
                if on_progress is not None and not on_progress(0.0):
                    raise Cancelled(f"connecting to {options.url} was stopped")
            try:
                engine.dialect = dialect = connecting.result()
            except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:  # of odd JSON
                problem = f"what it says of its models cannot be read ({error!r}); {IS_IT_AN_ENGINE}"
                raise RemoteError(engine.transport.where, problem, again=False) from error
        except BaseException:
            engine.close()
            raise
        engine.info, engine.n_ctx = dialect.info, dialect.info.n_ctx
        engine.capabilities = dialect.capabilities
        close_at_exit(engine)
        log.info("%s", "; ".join(dialect.lines()))
        return engine

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._live())
        finally:
            self._loop.close()
            self._abandon()

    async def _live(self) -> None:
        """Let requests run until the engine is closed, then end them and the connections."""
        await self._ended.wait()
        # First what could open another connection behind the client's end.
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.transport.close()
        await asyncio.sleep(0)  # closed sockets are given back in the loop's next round

    def close(self, timeout: float = 5.0) -> None:
        """End every request and the connections. A second call does nothing."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon_threadsafe(self._ended.set)
            if threading.current_thread() is not self._thread:  # else a listener asks for it
                self._thread.join(2 * timeout)
                self._abandon()

    def _abandon(self) -> None:
        for generation in list(self._generations):
            generation.abandon(EngineClosed("the engine was closed"))

    def _check_open(self) -> None:
        if self._closing:
            raise EngineClosed("the engine was closed")

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what callers ask for

    def stand_back(self) -> None:
        """Do nothing: nothing is evaluated on this machine."""

    def submit(self, request: Request) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded, NotSupported for what the other side cannot do, ContextOverflow.
        """
        self._check_open()
        self._checks.check_request(request)
        ids = read_prompt(self, request.prompt, request.parse_special)[0]
        fitted = tuple(fit(ids, request, self.n_ctx))
        generation = Generation(next(self._numbers), request, self._post)
        generation.prompt_ids, generation.truncated = fitted, len(fitted) != len(ids)
        made = generation.engine_state = RemoteRequest(generation)
        samplings, stops = for_each(request.sampling, request.n), for_each(request.stop, request.n)
        base = samplings[0].seed
        if base is None:
            base = self._chance.randrange(SEEDS >> 1)
        for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
            own = sampling.seed if isinstance(request.sampling, tuple) else None
            branch = made.add(sampling, stop, own if own is not None else base + index)
            if index < len(request.takes):
                branch.take_up(request.takes[index])
            else:
                branch.begin(request.begin)
        self._generations.add(generation)
        self._post(BranchCommand("submit", generation))
        return generation

    def stats(self) -> EngineStats:
        """Return the counters; of the server, what its answers say."""
        return EngineStats(
            prompt_tokens=self.prompt_tokens, generated_tokens=self.generated, total_cells=self.n_ctx,
            live_branches=sum(branch.live for each in list(self._generations) for branch in each.branches),
        )  # fmt: skip

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, template: str | None = None, **options: Any
    ) -> str:
        """Return one prompt: by the template given, the server's own, or as ChatML.

        ``options`` are those of :func:`.chat.render`. Raises InvalidRequest.
        """
        from ..chat import render  # brings Jinja along

        return render(template or self.info.chat_template, messages, bos="", eos=self.dialect.end, **options)

    # ---- checks

    def _check_rules(self, request: Request, samplings: Sequence[Sampling], stops: Sequence[Stop]) -> None:
        """Raise NotSupported for the first field that the server lacks, unless it has its default."""
        for sampling in samplings:
            validate(sampling)
        for asked in (request, *samplings, *stops):
            for name, reason in self.capabilities.missing.items():
                plain = getattr(_PLAIN[type(asked)], name, None)
                if name not in _SILENTLY and getattr(asked, name, None) != plain:
                    raise NotSupported(reason)
        self.capabilities.require("look_ahead", request.priority is Priority.BACKGROUND)

    # ---- verbs, on the loop

    def _post(self, command: BranchCommand) -> None:
        """Hand a verb to the loop. Raises InvalidRequest, NotSupported for one that cannot be carried out."""
        self._checks.check_command(command)
        self.capabilities.require("pause", command.verb == "pause")
        if command.verb in ("reroll", "add_branch"):
            self.capabilities.require("without", bool(command.args[-1]))
            self.check_ids(command.args[-2])
        elif command.verb == "set_prompt":
            self.check_ids(command.args[0])
        command.generation.expect(command)
        try:
            self._check_open()
            self._loop.call_soon_threadsafe(self._obey, command)
        except (EngineClosed, RuntimeError):  # the loop is closed
            command.generation.abandon(EngineClosed("the engine was closed"))

    def _obey(self, command: BranchCommand) -> None:
        """Carry out a verb by the method of its name, then ask for the branches that wait."""
        request = cast(RemoteRequest, command.generation.engine_state)
        target = request if command.branch < 0 else request.branches[command.branch]
        if command.generation.error is None and command.verb not in ("submit", "resume", "promote"):
            getattr(target, command.verb)(*command.args)
        command.generation.arrived(command)
        self._ask(request)

    # ---- answers: one request to the server each, and a task that writes its branches

    def _ask(self, request: RemoteRequest) -> None:
        """Ask for every branch of a request that waits; those that differ only in their seeds together."""

        def alike(each: RemoteBranch) -> Any:
            branch, seed = each.branch, each.next_seed - each.branch.index
            sampling = replace(branch.sampling, seed=None)
            return seed, sampling, each.left, each.least, branch.stop_rule.ignore_eog, each.path

        waits = [b for b in request.branches if b.branch.state is BranchState.WAITING and b.answer is None]
        for each in waits:
            if each.left == 0:
                each.finish(FinishReason.LENGTH)
            elif len(each.path) >= self.n_ctx:
                each.finish(FinishReason.CONTEXT)
        for _, equal in itertools.groupby((b for b in waits if b.branch.live), alike):
            rest = list(equal)
            while rest:
                group, rest = rest[: self.dialect.many], rest[self.dialect.many :]
                self.prompt_tokens += len(group[0].path)
                body = self.dialect.encode(group[0], len(group))
                task = self._loop.create_task(self._write(request, group, body))
                for each in group:
                    each.answer = task
                    each.set_state(BranchState.PROMPT)
        request.publish()

    async def _write(self, request: RemoteRequest, group: Sequence[RemoteBranch], body: Any) -> None:
        """Write equal branches; where the answer breaks off, ask again for those that have not ended."""
        task, options, where = asyncio.current_task(), self.options, self.transport.where
        error = early = RemoteError(where, "the answer ended too soon")
        try:
            async with aclosing(self.transport.events(self.dialect.path, body)) as batches:
                async for batch in batches:
                    try:
                        for data in batch:
                            self._receive(group, data)
                    finally:  # a branch that ended cancels this task, which then gets no further
                        request.publish()
        except RemoteError as failure:
            error = failure
        except Exception as failure:  # a defect of ours, or an answer that nobody expected
            log.exception("a request elsewhere failed")
            error = RemoteError(where, repr(failure), again=False)
        broken = [each for each in group if each.answer is task]
        if broken and error is early and broken[0] is not group[0]:
            self.dialect.many = 1  # it knows no n
        if broken:
            log.warning("request %d: %s", request.generation.number, error)
        if attempt := max((each.fail(error, options.retries) for each in broken), default=0):
            request.publish()
            wait = min(options.first_wait * 2 ** (attempt - 1), options.longest_wait) if attempt > 1 else 0.0
            wait = max(wait, error.wait)
            if options.notify is not None and attempt > self._told:  # once for all branches that wait
                self._told = attempt
                problem, when = error.problem.partition(";")[0], f"in {wait:.3g} s" if wait else "now"
                words = f"{where}: {problem}. Trying again {when} ({attempt} of {options.retries})."
                self._loop.call_soon(options.notify, words)  # should it raise, the branch goes on
            await asyncio.sleep(wait)
        for each in broken:
            if each.answer is task:
                each.answer = None
        self._ask(request)

    def _receive(self, group: Sequence[RemoteBranch], data: bytes) -> None:
        """Give the branches of a group what an event brings. Raises RemoteError."""
        where, chunks, task = self.transport.where, self.dialect.parse(data), asyncio.current_task()
        numbers = [chunk.index for chunk in chunks]
        if len(set(numbers)) < len(numbers) or not set(numbers).issubset(range(len(group))):
            problem = f"the server is faulty: it sends words for branches {numbers} of {len(group)}"
            raise RemoteError(where, problem, again=False)
        for chunk in chunks:
            each = group[chunk.index]
            if each.answer is not task:  # a verb has taken it away, or it is at its end
                continue
            if chunk.text:
                self.generated, self._told = self.generated + 1, 0
                each.receive(chunk.text)
            if chunk.finish_reason and each.answer is task:
                each.answer = None  # the answer is read to its end: then its connection serves the next one
                reason = ENDS.get(chunk.finish_reason)
                if reason is None:
                    each.fail(RemoteError(where, chunk.problem or "it ended this branch", again=False))
                else:
                    each.finish(reason)
