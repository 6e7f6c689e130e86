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
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar, cast

import httpx

from ..backend import WithoutCache
from ..capabilities import Feature
from ..checks import RequestChecks
from ..ending import close_at_exit
from ..generation import Command, Generation
from ..parameters import PARAMETERS, read_schema, validate
from ..prompt import assemble, token_ids
from ..seeds import derive_seed
from ..steering import take_up, typed_text
from ..types import (
    BranchState,
    Cancelled,
    EngineClosed,
    EngineError,
    EngineStats,
    InvalidRequest,
    ModelInfo,
    Priority,
    RemoteError,
    Request,
    for_each,
)
from ..window import fit
from .answer import Answers
from .branch import SEEDS, RemoteRequest, RemoteVerbs
from .dialects import Dialect, Profile, connect
from .options import RemoteOptions, shown
from .transport import ANSWER_SECONDS, Transport, wants_tls
from .vocabulary import PIECES, LetterVocabulary

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK = 0.1  # seconds between looks at whether a connection is still wanted
_END_SECONDS = 5.0  # that the connections of an engine that was dropped may take to end


class RemoteChecks(RequestChecks):
    """The checks of every engine, and NotSupported for what the server cannot do."""

    def __init__(self, profile: Profile, max_branches: int) -> None:
        super().__init__(profile.info.n_vocab, max_branches)
        self.capabilities = profile.capabilities

    def check_request(self, request: Request) -> None:
        super().check_request(request)
        wanted: dict[Feature, bool] = {
            "logits_callback": request.logits_callback is not None,
            "logprobs": request.logprobs is not None,
            "prompt_logprobs": request.prompt_logprobs is not None,
            "next_logprobs": request.next_logprobs is not None or bool(request.next_ids),
            "without": bool(request.without),
            "cache_prompt": not request.cache_prompt,
            "penalty_prompt": request.penalty_prompt is not None,
            "look_ahead": request.priority is Priority.BACKGROUND,
            "siblings": request.siblings != "independent",
            "repulsion": bool(request.repulsion),
        }
        for name, value in wanted.items():
            self.capabilities.require(name, value)
        if request.logprobs:
            raise InvalidRequest("logprobs", "only those of written tokens come from elsewhere: 0 at most")

    def check_command(self, command: Command) -> None:
        super().check_command(command)
        self.capabilities.require("pause", command.verb == "pause")
        if command.verb in ("reroll", "add_branch"):
            self.capabilities.require("without", bool(command.args[-1]))

    def check_sampling(self, sampling: Any, request: Request) -> None:
        super().check_sampling(sampling, request)
        validate(sampling)
        if sampling.json_schema:
            read_schema(sampling.json_schema)
        for row in PARAMETERS:  # what stands where it always stands is left out
            if row.record == "sampling":
                self.capabilities.require(row, getattr(sampling, row.field) != row.default)

    def check_stop(self, stop: Any) -> None:
        super().check_stop(stop)
        self.capabilities.require("token_ids", bool(stop.token_ids))


class RemoteRunner:
    """The thread, its event loop and the requests on it. Public methods may be called from any other thread.

    Only requests that are being written hold the engine: one that is dropped without ``close`` finishes them,
    and then its connections and its thread end.
    """

    transport: Transport | None = None
    dialect: Dialect
    profile: Profile
    answers: Answers
    checks: RemoteChecks

    def __init__(self, options: RemoteOptions) -> None:
        self.options = options
        self.generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="srbwriter-remote", daemon=True)
        self._commands: list[Command] = []
        self._posting = threading.Lock()  # of the commands, and of the decision that no more are taken
        self._vocabulary, self._verbs = LetterVocabulary(), RemoteVerbs()
        self._closing = self._ended = False

    # ---- life

    def connect(self, on_progress: Callable[[float], bool] | None) -> None:
        """Start the thread, and find out what the server is; ``on_progress`` gives up by returning False.

        Raises RemoteError, Cancelled.
        """
        self._thread.start()
        try:
            connecting = asyncio.run_coroutine_threadsafe(self._connect(), self._loop)
            while not wait((connecting,), _LOOK).done:
                if on_progress is not None and not on_progress(0.0):
                    connecting.cancel()
                    raise Cancelled(f"connecting to {self.options.url} was stopped")
            connecting.result()
        except BaseException:
            self.close()
            raise
        close_at_exit(self)

    async def _connect(self) -> None:
        transport = self.transport = Transport(self.options)
        try:
            self.dialect, self.profile = await transport.repeat(lambda: connect(transport))
        except RemoteError as error:
            unreadable = isinstance(error.__cause__, httpx.RemoteProtocolError | httpx.ReadError)
            if unreadable and transport.where.startswith("http://"):
                problem = f"{error.problem}; {wants_tls(transport.where)}"
                raise RemoteError(transport.where, problem, again=False) from error
            raise
        self.checks = RemoteChecks(self.profile, self.options.max_branches)
        self.answers = Answers(self.dialect, self.profile)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._ended:
            try:
                self._loop.run_forever()
            except BaseException:  # asyncio lets SystemExit and KeyboardInterrupt through
                log.exception("something ended the event loop; it goes on")
        self._abandon()
        self._loop.close()

    def close(self, timeout: float = _END_SECONDS) -> None:
        """End every request and the connections. A second call does nothing."""
        with self._posting:
            if self._closing:
                return
            self._closing = True
        self._loop.call_soon_threadsafe(self._begin_end, timeout)
        if threading.current_thread() is not self._thread:
            self._thread.join(2 * timeout)
            if self._thread.is_alive():
                log.warning("the event loop did not end in time")
            self._abandon()

    def drop(self) -> None:
        """Close, since neither a caller nor a running request has a reference to the engine any more.

        Returns at once, and takes no lock: the garbage collector may call it on any thread, anywhere.
        """
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self.close)

    def _begin_end(self, seconds: float) -> None:
        self._ending = self._loop.create_task(self._end(seconds))  # the loop itself keeps no task alive

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
        for generation in list(self.generations):
            generation.abandon(EngineClosed("the engine was closed"))

    def check_open(self) -> None:
        """Raise EngineClosed when nothing can be asked of the server any more."""
        if self._closing:
            raise EngineClosed("the engine was closed")

    # ---- from callers to the loop

    def post(self, command: Command) -> None:
        """Hand a command to the loop. Raises InvalidRequest for a verb that cannot be carried out."""
        self.checks.check_command(command)
        if command.verb == "append":
            more = typed_text(self._vocabulary, str(command.args[0]), "", heals=False)
            command = command._replace(args=(*command.args, *more))
        elif command.verb in ("reroll", "add_branch"):
            self._vocabulary.check_ids(command.args[-2])
        with self._posting:
            closed = self._closing
            if not closed:
                self._commands.append(command)
                self._loop.call_soon_threadsafe(self._obey)
        if closed:
            command.generation.abandon(EngineClosed("the engine was closed"))

    def _obey(self) -> None:
        """Carry out the posted commands, then ask for the branches that wait."""
        with self._posting:
            commands, self._commands = self._commands, []
        touched: dict[RemoteRequest, None] = {}
        for command in commands:
            request = cast(RemoteRequest, command.generation.engine_state)
            try:
                if not request.dead:
                    command.carry_out(self._verbs, request, request.branches)
            except Exception as error:
                log.exception("%s of a branch elsewhere failed", command.verb)
                request.branches[command.branch].fail(EngineError(f"{command.verb}: {error!r}"))
            command.generation.arrived(command)
            touched[request] = None
        for request in touched:
            self.answers.start(request)
            request.publish(obeyed=True)

    def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return what the server answers; tried some times. Raises RemoteError, EngineClosed."""
        self.check_open()
        transport = self.dialect.transport
        asked = asyncio.run_coroutine_threadsafe(transport.repeat(question), self._loop)
        try:
            return asked.result(ANSWER_SECONDS + self.options.connect_seconds)
        except TimeoutError:
            asked.cancel()
            raise EngineError(f"{self.profile.server} did not answer in time") from None


class RemoteEngine(LetterVocabulary, WithoutCache):
    """A connection. Make one with :meth:`connect`."""

    def __init__(self, runner: RemoteRunner) -> None:
        self.options, self.profile, self._runner = runner.options, runner.profile, runner
        self.capabilities, self.n_ctx = runner.checks.capabilities, self.profile.info.n_ctx
        self.max_branches = runner.options.max_branches
        self._numbers, self._drawn = itertools.count(1), itertools.count()
        seed = self.options.seed
        self._seed = seed if seed is not None else int.from_bytes(os.urandom(4), "little")
        runner.answers.engine = weakref.ref(self)
        dropped = weakref.finalize(self, runner.drop)
        dropped.atexit = False  # the end of the program closes what still runs

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
        runner = RemoteRunner(options)
        runner.connect(on_progress)
        for line in runner.profile.lines():
            log.info("%s", line)
        return cls(runner)

    def close(self, timeout: float = _END_SECONDS) -> None:
        """End every request and the connections. A second call does nothing.

        An engine without references finishes its running requests and is closed then.
        """
        self._runner.close(timeout)

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def info(self) -> ModelInfo:
        return replace(self.profile.info, device=shown(self.options.url))

    def stand_back(self) -> None:
        """No-op: nothing is evaluated on this machine."""

    def submit(self, request: Request) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded, NotSupported for what the other side cannot do, ContextOverflow.
        """
        self._runner.check_open()
        self._runner.checks.check_request(request)
        if request.penalty_prompt is not None:
            asked = token_ids(self, "penalty_prompt", request.penalty_prompt, request.parse_special)
            request = replace(request, penalty_prompt=asked)
        # They begin an empty text by themselves.
        ids = assemble(self, replace(request, heal=False))[0] if request.prompt else list[int]()
        fitted = tuple(fit(ids, request, self.n_ctx))
        generation = Generation(next(self._numbers), request, self._runner.post)
        generation.prompt_ids = fitted
        generation.truncated = len(fitted) != len(ids)
        generation.engine_state = made = self._make_request(generation)
        made.engine = self  # which a caller may drop before it is written
        self._runner.generations.add(generation)
        self._runner.post(Command("submit", generation))
        return generation

    def _make_request(self, generation: Generation) -> RemoteRequest:
        asked = generation.request
        request = RemoteRequest(generation)
        samplings, stops = for_each(asked.sampling, asked.n), for_each(asked.stop, asked.n)
        base = samplings[0].seed
        if base is None:
            base = derive_seed(self._seed, next(self._drawn)) % (SEEDS >> 1)
        for index, (sampling, stop) in enumerate(zip(samplings, stops, strict=True)):
            own = sampling.seed if isinstance(asked.sampling, tuple) else None
            seed = own if own is not None else base + index  # neighbours can share a request
            seed = request.seed(seed, base, index)
            writer = request.add_branch(sampling, stop, seed, PIECES)
            if index < len(asked.takes):
                take_up(writer, asked.takes[index], self)
            else:
                self.check_ids(asked.begin)
                writer.begin(asked.begin, (), PIECES)
        return request

    def stats(self) -> EngineStats:
        """Return the counters; of the server, what its answers say."""
        answers = self._runner.answers
        requests = [[each.branch for each in request.branches] for request in list(answers.active)]
        live = [branches for branches in requests if any(branch.live for branch in branches)]
        begun = [any(branch.state is not BranchState.WAITING for branch in branches) for branches in live]
        return EngineStats(
            prompt_tokens=answers.prompt_tokens,
            generated_tokens=answers.generated,
            total_cells=self.n_ctx,
            live_branches=sum(branch.live for branches in live for branch in branches),
            running_requests=sum(begun),
            waiting_requests=len(begun) - sum(begun),
        )

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, template: str | None = None, **options: Any
    ) -> str:
        """Return one prompt: by the template given, by the server with its own, or here with that.

        ``options`` are those of :func:`.chat.render`. Raises InvalidRequest for messages that do not fit
        together, and RemoteError.
        """
        if template is None and messages and self.profile.template:
            dialect = self._runner.dialect
            try:
                found = self._runner.ask(lambda: dialect.template(messages, **options))
                if found is not None:
                    return found
            except RemoteError as error:
                if error.again:
                    raise  # else it is ours that says what is wrong with the messages, if anything is
        from ..chat import render  # brings Jinja along

        return render(template or self.info.chat_template or None, messages, bos="", eos="", **options)
