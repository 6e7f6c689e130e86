"""A :class:`~srbwriter.engine.backend.Backend` whose model runs on a server.

One thread with an event loop talks to the server and is the only one that writes into branches; every public
method may be called from any thread but that one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import replace
from typing import Any, TypeVar, cast

from ..backend import WithoutCache
from ..checks import RequestChecks
from ..ending import close_at_exit
from ..generation import Command, Generation
from ..parameters import read_schema, validate
from ..prompt import token_ids
from ..seeds import derive_seed
from ..types import (
    BranchState,
    Cancelled,
    EngineClosed,
    EngineError,
    EngineStats,
    InvalidRequest,
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
from .answer import write_branches
from .branch import SEEDS, RemoteBranch, RemoteRequest
from .dialects import Dialect, Profile, connect
from .options import RemoteOptions, shown
from .transport import ANSWER_SECONDS, Transport
from .vocabulary import SIZE, LetterVocabulary, encode

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK = 0.1  # seconds between looks at whether a connection is still wanted
_PLAIN = Request(""), Sampling(), Stop()


class RemoteEngine(LetterVocabulary, WithoutCache, RequestChecks):
    """A connection. Make one with :meth:`connect`.

    Attributes:
        active: requests that are being written.
        generated: tokens that came, of all requests; ``prompt_tokens`` were sent.
        notices: problems that were told since a token came last.
    """

    transport: Transport | None = None
    dialect: Dialect
    profile: Profile

    def __init__(self, options: RemoteOptions) -> None:
        RequestChecks.__init__(self, SIZE, options.max_branches)
        self.options = options
        self.active: set[RemoteRequest] = set()
        self.generated = self.prompt_tokens = 0
        self.notices: set[str] = set()
        self._numbers, self._drawn = itertools.count(1), itertools.count()
        seed = options.seed
        self._seed = seed if seed is not None else int.from_bytes(os.urandom(4), "little")
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._tasks: set[asyncio.Task[None]] = set()  # the loop itself keeps no task alive
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="srbwriter-remote", daemon=True)
        self._closing = self._ended = False

    # ---- life

    @classmethod
    def connect(
        cls, options: RemoteOptions, on_progress: Callable[[float], bool] | None = None
    ) -> RemoteEngine:  # fmt: skip
        """Connect, and find out which program the server is; ``on_progress`` cancels by returning False.

        Raises RemoteError for a server that does not answer as one, InvalidRequest for an invalid address,
        Cancelled.
        """
        if not options.url:
            raise InvalidRequest("connect", "there is no address")
        engine = cls(options)
        engine._thread.start()
        try:
            connecting = asyncio.run_coroutine_threadsafe(engine._connect(), engine._loop)
            while not wait((connecting,), _LOOK).done:
                if on_progress is not None and not on_progress(0.0):
                    connecting.cancel()
                    raise Cancelled(f"connecting to {options.url} was stopped")
            connecting.result()
        except BaseException:
            engine.close()
            raise
        close_at_exit(engine)
        for line in engine.profile.lines():
            log.info("%s", line)
        return engine

    async def _connect(self) -> None:
        transport = self.transport = Transport(self.options)
        self.dialect, self.profile = await transport.repeat(lambda: connect(transport))
        self.capabilities, self.n_ctx = self.profile.capabilities, self.profile.info.n_ctx

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ended:
            try:
                self._loop.run_forever()
            except BaseException:  # asyncio lets SystemExit and KeyboardInterrupt through
                log.exception("something ended the event loop; it goes on")
        self._loop.close()
        self._abandon()

    def close(self, timeout: float = 5.0) -> None:
        """End every request and the connections. A second call does nothing."""
        if not self._closing:
            self._closing = True
            asyncio.run_coroutine_threadsafe(self._end(timeout), self._loop)
            if threading.current_thread() is not self._thread:  # else a listener asks for it
                self._thread.join(2 * timeout)
                self._abandon()

    async def _end(self, seconds: float) -> None:
        """End everything on the loop, then the connections."""
        try:
            async with asyncio.timeout(seconds):
                # A question or an attempt to connect would open a socket behind the client's end.
                others = asyncio.all_tasks() - {asyncio.current_task()}
                for task in others:
                    task.cancel()
                await asyncio.gather(*others, return_exceptions=True)
                if self.transport is not None:
                    await self.transport.close()
                await asyncio.sleep(0)  # closed sockets are given back in the loop's next round
        except TimeoutError:
            log.warning("connections did not end in time")
        finally:
            self._ended = True
            self._loop.stop()

    def _abandon(self) -> None:
        for generation in list(self._generations):
            generation.abandon(EngineClosed("the engine was closed"))

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- what callers ask for

    @property
    def info(self) -> ModelInfo:
        return replace(self.profile.info, device=shown(self.options.url))

    def stand_back(self) -> None:
        """Do nothing: nothing is evaluated on this machine."""

    def submit(self, request: Request) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded, NotSupported for what the other side cannot do, ContextOverflow.
        """
        self._check_open()
        self.check_request(request)
        if request.penalty_prompt is not None:
            asked = token_ids(self, "penalty_prompt", request.penalty_prompt, request.parse_special)
            request = replace(request, penalty_prompt=asked)
        ids = token_ids(self, "prompt", request.prompt, request.parse_special)
        fitted = tuple(fit(ids, request, self.n_ctx))
        generation = Generation(next(self._numbers), request, self._post)
        generation.prompt_ids, generation.truncated = fitted, len(fitted) != len(ids)
        made = generation.engine_state = RemoteRequest(generation)
        samplings, stops = for_each(request.sampling, request.n), for_each(request.stop, request.n)
        base = samplings[0].seed
        if base is None:
            base = derive_seed(self._seed, next(self._drawn)) % (SEEDS >> 1)
        for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
            own = sampling.seed if isinstance(request.sampling, tuple) else None
            seed = own if own is not None else base + index  # neighbours can share a request
            branch = made.add(sampling, stop, seed)
            if index < len(request.takes):
                branch.take_up(request.takes[index], encode(request.takes[index].text))
            else:
                self.check_ids(request.begin)
                branch.begin(request.begin)
        self._generations.add(generation)
        self._post(Command("submit", generation))
        return generation

    def stats(self) -> EngineStats:
        """Return the counters; of the server, what its answers say."""
        live = [request for request in list(self.active) if request.live]
        states = [[each.branch.state for each in request.branches if each.branch.live] for request in live]
        waiting = sum(set(those) == {BranchState.WAITING} for those in states)
        return EngineStats(
            prompt_tokens=self.prompt_tokens, generated_tokens=self.generated, total_cells=self.n_ctx,
            live_branches=sum(map(len, states)), running_requests=len(states) - waiting,
            waiting_requests=waiting,
        )  # fmt: skip

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, template: str | None = None, **options: Any
    ) -> str:
        """Return one prompt: by the template given, by the server with its own, or here with that.

        ``options`` are those of :func:`.chat.render`. Raises InvalidRequest for messages that do not fit
        together, and RemoteError.
        """
        if template is None and messages and self.profile.template:
            try:
                found = self._ask(lambda: self.dialect.template(messages, **options))
                if found is not None:
                    return found
            except RemoteError as error:
                if error.again:
                    raise  # else it is ours that says what is wrong with the messages, if anything is
        from ..chat import render  # brings Jinja along

        return render(template or self.info.chat_template or None, messages, bos="", eos="", **options)

    # ---- checks

    def check_request(self, request: Request) -> None:
        super().check_request(request)
        self._refuse_lacking(request, _PLAIN[0])
        self.capabilities.require("look_ahead", request.priority is Priority.BACKGROUND)

    def check_command(self, command: Command) -> None:
        super().check_command(command)
        self.capabilities.require("pause", command.verb == "pause")
        if command.verb in ("reroll", "add_branch"):
            self.capabilities.require("without", bool(command.args[-1]))
            self.check_ids(command.args[-2])

    def check_sampling(self, sampling: Any, request: Request) -> None:
        super().check_sampling(sampling, request)
        validate(sampling)
        if sampling.json_schema:
            read_schema(sampling.json_schema)
        self._refuse_lacking(sampling, _PLAIN[1])

    def check_stop(self, stop: Any) -> None:
        super().check_stop(stop)
        self._refuse_lacking(stop, _PLAIN[2])

    def _refuse_lacking(self, asked: object, plain: object) -> None:
        """Raise NotSupported for the first field that the server lacks, unless it has its default.

        A word that breaks off is left as it is in silence, and so may a text end early.
        """
        for name, reason in self.capabilities.missing.items():
            differs = getattr(asked, name, None) != getattr(plain, name, None)
            if differs and name not in ("heal", "min_tokens", "ignore_eog"):
                raise NotSupported(reason)

    def _check_open(self) -> None:
        if self._closing:
            raise EngineClosed("the engine was closed")

    # ---- to the loop, and on it

    def _ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return what the server answers; tried some times. Raises RemoteError, EngineClosed."""
        self._check_open()
        asked = asyncio.run_coroutine_threadsafe(self.dialect.transport.repeat(question), self._loop)
        try:
            return asked.result(ANSWER_SECONDS + self.options.connect_seconds)
        except TimeoutError:
            asked.cancel()
            raise EngineError(f"{self.profile.server} did not answer in time") from None

    def _post(self, command: Command) -> None:
        """Hand a verb to the loop. Raises InvalidRequest, NotSupported for one that cannot be carried out."""
        self.check_command(command)
        try:
            self._check_open()
            self._loop.call_soon_threadsafe(self._obey, command)
        except (EngineClosed, RuntimeError):  # the loop is closed
            command.generation.abandon(EngineClosed("the engine was closed"))

    def _obey(self, command: Command) -> None:
        """Carry out a verb by the method of its name, then ask for the branches that wait."""
        request = cast(RemoteRequest, command.generation.engine_state)
        target = request if command.branch < 0 else request.branches[command.branch]
        try:
            if command.verb != "submit" and not request.dead:
                getattr(target, command.verb)(*command.args)
        except Exception as error:
            log.exception("%s of a branch elsewhere failed", command.verb)
            for each in request.branches:
                if each.branch.live:
                    each.fail(EngineError(f"{command.verb}: {error!r}"))
        command.generation.arrived(command)
        self.write(request)
        request.publish(obeyed=True)

    def write(self, request: RemoteRequest) -> None:
        """Ask for every branch of a request that waits; those that differ only in their seeds together."""
        waiting = [
            each for each in request.branches
            if each.branch.state is BranchState.WAITING and each.answer is None
        ]  # fmt: skip
        if waiting:
            self.active.add(request)
        elif not request.live:
            self.active.discard(request)
        groups: list[list[RemoteBranch]] = []
        equal: dict[Any, list[RemoteBranch]] = {}
        for each in waiting:
            rule = each.branch.stop_rule
            key = replace(each.branch.sampling, seed=None), each.left, each.min_tokens, rule.ignore_eog
            group = equal.get(key) if each.at_prompt else None
            full = group is None or len(group) >= self.profile.many
            if group is None or full or each.next_seed != group[-1].next_seed + 1:
                group = equal[key] = []
                groups.append(group)
            group.append(each)
        for group in groups:
            task = self._loop.create_task(write_branches(self, request, group))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            for each in group:
                each.begin_answer(task)
