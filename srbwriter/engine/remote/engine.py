"""The face: a :class:`~srbwriter.engine.backend.Backend` whose model runs somewhere else.

One thread with an event loop talks to the other side and is the only one that writes into branches; every
public method may be called from any thread but that one.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from typing import Any, TypeVar, cast

import msgspec

from ..ending import close_at_exit
from ..generation import Branch, Buffer, Command, Generation
from ..limits import check_ids, check_prompt, one_or_each
from ..parameters import PARAMETERS, validate
from ..prompt import Unfinished, assemble, token_ids, unfinished
from ..types import (
    BranchState,
    Cancelled,
    EngineClosed,
    EngineError,
    EngineStats,
    InvalidRequest,
    LimitExceeded,
    ModelInfo,
    NotSupported,
    Priority,
    RemoteError,
    Request,
    Sampling,
    Stop,
)
from ..window import fit
from . import letters
from .dialects.base import Dialect
from .lanes import SEEDS, Lane, Run, mixed
from .options import RemoteOptions, shown
from .pool import Peer, Pool
from .profile import ALL_SAMPLING, Profile
from .serving import Service
from .verbs import Verbs

log = logging.getLogger(__name__)

T = TypeVar("T")

_PLAIN = Sampling()
_BROKEN = "\ufffd".encode()
_KEPT_TEXTS = 512  # tokenised texts that are remembered
_ATTEMPTS = 4  # of a question
_LOOK = 0.1  # seconds between looks at whether a connection is still wanted
_TEMPLATE_SECONDS = 30.0


class RemoteEngine:
    """A connection. Make one with :meth:`connect`, and close it."""

    def __init__(self, options: RemoteOptions) -> None:
        if not options.urls:
            raise InvalidRequest("connect", "there is no address")
        self.options = options
        self.profile: Profile  # known once it is connected
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="srbwriter-remote", daemon=True)
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._commands: list[Command] = []
        self._posting = threading.Lock()  # of the commands
        self._numbers, self._drawn = itertools.count(1), itertools.count()
        self._seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        self._closing = False
        self._texts: dict[tuple[str, bool], tuple[int, ...]] = {}
        self._pieces: tuple[dict[int, bytes], dict[int, bytes]] = ({}, {})  # plain, and with control tokens
        self._spelt: dict[int, str] = {}
        self._pool: Pool
        self._service: Service
        self._verbs: Verbs

    # ---- life

    @classmethod
    def connect(
        cls, options: RemoteOptions, on_progress: Callable[[float], bool] | None = None
    ) -> RemoteEngine:  # fmt: skip
        """Find out who is there; ``on_progress`` is asked meanwhile, and gives up by answering False.

        Raises RemoteError where nobody answers or the answer is none, InvalidRequest for an address that is
        none, Cancelled.
        """
        engine = cls(options)
        engine._thread.start()
        try:
            future = asyncio.run_coroutine_threadsafe(engine._connect(), engine._loop)
            while True:
                try:
                    future.result(_LOOK)
                    break
                except NotYet:
                    if future.done():
                        raise
                    if on_progress is not None and not on_progress(0.0):
                        future.cancel()
                        raise Cancelled(f"connecting to {options.urls[0]} was stopped") from None
        except BaseException:
            engine.close()
            raise
        close_at_exit(engine)
        for line in engine.profile.lines():
            log.info("%s", line)
        return engine

    async def _connect(self) -> None:
        self._pool = Pool(self.options)
        self.profile = await self._pool.connect()
        self._service = Service(self.options, self._pool, self.profile, self._spell)
        self._verbs = Verbs(self._service.speak)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def close(self, timeout: float = 5.0) -> None:
        """End every request and the connections. A second call does nothing."""
        if self._closing:
            return
        self._closing = True
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            ended = asyncio.run_coroutine_threadsafe(self._end(), self._loop)
            try:
                ended.result(timeout)
            except (NotYet, TimeoutError):
                log.warning("connections did not end in time")
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout)
        for generation in list(self._generations):
            generation.abandon(EngineClosed("the engine was closed"))
        if not self._thread.is_alive():
            self._loop.close()

    async def _end(self) -> None:
        if hasattr(self, "_service"):
            await self._service.close()
        if hasattr(self, "_pool"):
            await self._pool.close()

    def __enter__(self) -> RemoteEngine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- who is there

    @property
    def info(self) -> ModelInfo:
        return replace(self.profile.info, device=shown(self.options.urls[0]))

    @property
    def n_ctx(self) -> int:
        return self.profile.info.n_ctx

    @property
    def max_branches(self) -> int:
        return self.options.max_branches

    @property
    def bos(self) -> int | None:
        return self.profile.bos

    @property
    def add_bos(self) -> bool:
        return self.profile.add_bos

    @property
    def fingerprint(self) -> str:
        """The name of the vocabulary."""
        return self.profile.info.vocab

    @property
    def eos(self) -> int | None:
        return self.profile.eos

    @property
    def eog(self) -> frozenset[int]:
        return self.profile.eog

    @property
    def fim(self) -> tuple[int, int, int] | None:
        return self.profile.fim

    @property
    def max_logprobs(self) -> int:
        """Likeliest tokens that are told of one place at most."""
        return self.profile.logprobs

    @property
    def peers(self) -> Sequence[Peer]:
        """The addresses, and how they fare."""
        return self._pool.peers

    def trouble_now(self) -> str:
        """Why nothing could be written at this moment, in words; nothing if it could. Somebody is asked."""
        return self._wait(self._pool.trouble_now())

    def stand_back(self) -> None:
        """Nothing is written on this machine."""

    def lacks(self, name: str) -> str:
        return self.profile.lacks(name)

    # ---- work

    def submit(self, request: Request) -> Generation:
        """Start a request; returns at once.

        Raises InvalidRequest, LimitExceeded, NotSupported for what the other side cannot do, ContextOverflow.
        """
        self._check_open()
        self._check(request)
        if request.penalty_prompt is not None:
            asked = token_ids(self, "penalty_prompt", request.penalty_prompt, request.parse_special)
            request = replace(request, penalty_prompt=asked)
        ids, healed = assemble(self, replace(request, heal=request.heal and not self.lacks("heal")))
        fitted = fit(ids, request, self.n_ctx)
        generation = Generation(next(self._numbers), request, self._post)
        generation.prompt_ids = tuple(fitted)
        generation.truncated = len(fitted) != len(ids)
        generation.healed, generation.healed_tokens = healed.text, healed.tokens
        generation.engine_state = self._lay_out(generation, tuple(fitted))
        self._generations.add(generation)
        self._post(Command("submit", generation))
        return generation

    def _lay_out(self, generation: Generation, ids: tuple[int, ...]) -> Run:
        request = generation.request
        run = Run(generation, ids, counted=not self.profile.ids)
        if generation.healed:
            run.whole = (*ids, *self.tokenize_continuation(generation.healed))
        first = request.sampling[0] if isinstance(request.sampling, tuple) else request.sampling
        base = first.seed if first.seed is not None else mixed(self._seed, next(self._drawn)) % (SEEDS >> 1)
        for index in range(request.n):
            sampling = request.sampling[index] if isinstance(request.sampling, tuple) else request.sampling
            stop = request.stop[index] if isinstance(request.stop, tuple) else request.stop
            own = sampling.seed if isinstance(request.sampling, tuple) and sampling.seed is not None else None
            seed = (
                own if own is not None else base + index
            )  # neighbours, so that they can be asked for at once
            branch = Branch(generation, index, sampling, stop, run.seed(seed, base, index))
            generation.branches.append(branch)
            run.lanes.append(Lane(run, branch))
            run.lanes[-1].begin(request.begin, self.pieces(request.begin), request.without)
        for lane, take in zip(run.lanes, request.takes, strict=False):
            branch = lane.branch
            spelt = self.detokenize(take.ids) if take.ids else ""
            if take.text and spelt != lane.unspelt + take.text:
                lane.stop_healing()
            begun, known = len(lane.unspelt), bool(spelt) and spelt == lane.unspelt + take.text
            ids_of_take = list(take.ids) if known else self.tokenize_continuation(take.text)
            ends = [
                end - begun
                for end in itertools.accumulate(
                    len(p.decode("utf-8", "ignore")) for p in self.pieces(ids_of_take)
                )
            ]
            whole = bool(ends) and ends[-1] == len(take.text)
            branch.buffer = Buffer(
                pieces=[take.text] if take.text else [],
                ids=ids_of_take,
                ends=ends if whole else [len(take.text)] * len(ids_of_take),
                logprobs=lane.unscored(ids_of_take),
            )
            lane.came = len(ids_of_take)
            lane.unspelt = "" if take.text else lane.unspelt
            branch.finish_reason, branch.state = take.finish_reason, BranchState.DONE
            lane.words.restart(take.text, lane.written)
        return run

    def stats(self) -> EngineStats:
        """The counters now; of the other side, what its answers say."""
        service = self._service
        runs = [run for run in list(service.runs) if run.live]
        branches = [lane.branch for run in runs for lane in run.lanes]
        begun = [any(lane.branch.state is not BranchState.WAITING for lane in run.lanes) for run in runs]
        return EngineStats(
            prompt_tokens=service.prompt_tokens,
            reused_tokens=service.reused_tokens,
            generated_tokens=service.generated,
            total_cells=self.n_ctx,
            live_branches=sum(branch.live for branch in branches),
            running_requests=sum(begun),
            waiting_requests=len(begun) - sum(begun),
        )

    # ---- words and numbers

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        ids = list(self._tokens(text, parse_special))
        if add_bos and self.add_bos and self.bos is not None and ids[:1] != [self.bos]:
            ids.insert(0, self.bos)
        return ids

    def tokenize_continuation(self, text: str) -> list[int]:
        if not self.profile.ids:
            return letters.encode(text)
        lead, ids = self._tokens("\n", False), self._tokens("\n" + text, False)
        return list(ids[len(lead) :] if ids[: len(lead)] == lead else self._tokens(text, False))

    def _tokens(self, text: str, parse_special: bool) -> tuple[int, ...]:
        check_prompt("prompt", len(text))
        text = text.encode("utf-8", "replace").decode()  # half a surrogate pair cannot be sent
        if not text:
            return ()
        if not self.profile.ids:
            return tuple(letters.encode(text))
        key = (text, parse_special)
        found = self._texts.get(key)
        if found is None:
            found = tuple(self._question(lambda dialect: dialect.tokenize(text, parse_special)))
            while len(self._texts) >= _KEPT_TEXTS:
                self._texts.pop(next(iter(self._texts)), None)
            self._texts[key] = found
        return found

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Text of ``ids``; control tokens are left out unless ``special``. Raises InvalidRequest."""
        pieces = self._bytes(ids, special)
        if any(_BROKEN in piece for piece in pieces):  # parts of characters, which they do not tell
            heard = [token for token, piece in zip(ids, pieces, strict=True) if piece]
            if (text := self._question(lambda dialect: dialect.text(heard))) is not None:
                return text
        return b"".join(pieces).decode("utf-8", "replace")

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        return self._bytes(ids, False)

    def token_bytes(self, token: int) -> bytes:
        return self._bytes((token,), True)[0]

    def token(self, text: str) -> int | None:
        ids = self._tokens(text, True)
        return ids[0] if len(ids) == 1 else None

    def spelt(self, token: int) -> str | None:
        """What one token writes; None where that is no whole characters."""
        piece = self._bytes((token,), False)[0]
        try:
            return None if _BROKEN in piece else piece.decode()
        except UnicodeDecodeError:
            return None

    def begins_a_token(self, text: str) -> bool:
        """Whether there is a token that begins with ``text``, as far as they tell."""
        return self._question(lambda dialect: dialect.begins_a_token(text))

    def _bytes(self, ids: Sequence[int], special: bool) -> list[bytes]:
        self.check_ids(ids)
        known = self._pieces[special]
        if missing := list(dict.fromkeys(token for token in ids if token not in known)):
            told = self._question(lambda dialect: dialect.pieces(missing, special))
            for token, piece in zip(missing, told, strict=True):
                known[token] = piece
                if not special:
                    self._spelt[token] = piece.decode("utf-8", "replace")
        return [known[token] for token in ids]

    def _spell(self, ids: Sequence[int]) -> list[str] | None:
        """Their texts, if they are known without asking."""
        if not self.profile.ids:
            return [letters.piece(token) for token in ids]
        found = [self._spelt.get(token) for token in ids]
        return None if None in found else cast("list[str]", found)

    def apply_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None,
        **kwargs: Any,
    ) -> str:
        """Messages as one prompt: by the template given, by the server with its own, or here with that.

        Raises InvalidRequest for messages that do not fit together, and RemoteError.
        """
        if template is None and messages and self.profile.template:
            found = self._question(
                lambda dialect: dialect.template(
                    messages,
                    add_generation_prompt=add_generation_prompt and not continue_final_message,
                    continue_final_message=continue_final_message,
                    tools=tools,
                    **kwargs,
                )
            )
            if found is not None:
                return found
        from ..chat import render  # brings Jinja along

        bos, eos = (b"" if i is None else self._bytes((i,), True)[0] for i in (self.bos, self.eos))
        return render(
            template or self.info.chat_template or None,
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tools=tools,
            bos=bos.decode("utf-8", "replace"),
            eos=eos.decode("utf-8", "replace"),
            **kwargs,
        )

    # ---- what is asked, looked at before anything is sent

    def _check(self, request: Request) -> None:
        for parameter in (p for p in PARAMETERS if p.record == "request"):
            parameter.check(getattr(request, parameter.field))
        if request.n > self.max_branches:
            raise LimitExceeded(request.n, self.max_branches)
        for sampling in one_or_each("sampling", request.sampling, request.n):
            self._check_sampling(sampling)
        for stop in one_or_each("stop", request.stop, request.n):
            self._check_stop(stop)
        wanted = {
            "logits_callback": request.logits_callback is not None,
            "logprobs": request.logprobs is not None,
            "prompt_logprobs": request.prompt_logprobs is not None,
            "next_logprobs": request.next_logprobs is not None or bool(request.next_ids),
            "without": bool(request.without),
            "cache_prompt": not request.cache_prompt,
            "strict": request.strict,
            "penalty_prompt": request.penalty_prompt is not None,
            "lora": bool(request.lora),
            "look_ahead": request.priority is Priority.AHEAD,
            "siblings": request.siblings != "independent",
            "repulsion": bool(request.repulsion),
        }
        for name, value in wanted.items():
            self._refuse(name, value)
        _check_barred(request.without, one_or_each("sampling", request.sampling, request.n))
        for name in ("logprobs", "prompt_logprobs", "next_logprobs"):
            if (getattr(request, name) or 0) > self.profile.logprobs >= 0:
                raise InvalidRequest(name, f"{self.profile.server} tells {self.profile.logprobs} at most")
        for name in ("next_ids", "begin", "without"):
            check_ids(name, getattr(request, name), self.info.n_vocab)

    def _refuse(self, name: str, wanted: bool) -> None:
        if wanted and (why := self.lacks(name)):
            raise NotSupported(why)

    def _check_sampling(self, sampling: object) -> None:
        if not isinstance(sampling, Sampling):
            raise InvalidRequest("sampling", f"{sampling!r} is not a Sampling")
        validate(sampling)
        if sampling.json_schema:
            _check_schema(sampling.json_schema)
        for name in ALL_SAMPLING - self.profile.sampling:  # what stands where it always stands is left out
            self._refuse(name, getattr(sampling, name) != getattr(_PLAIN, name))

    def _check_stop(self, stop: object) -> None:
        if not isinstance(stop, Stop):
            raise InvalidRequest("stop", f"{stop!r} is not a Stop")
        for parameter in (p for p in PARAMETERS if p.record == "stop"):
            parameter.check(getattr(stop, parameter.field))
        self._refuse("token_ids", bool(stop.token_ids))
        self.check_ids(stop.token_ids)

    def check_ids(self, ids: Iterable[int]) -> None:
        """Raises InvalidRequest for an id that is not in the vocabulary."""
        ids = tuple(ids)
        check_ids("prompt", ids, self.info.n_vocab)
        if not self.profile.ids:
            try:
                letters.decode(ids)
            except ValueError as error:
                raise InvalidRequest("prompt", str(error)) from None

    # ---- from here to the loop

    def _post(self, command: Command) -> None:
        generation = command.generation
        for value in command.values():
            if isinstance(value, Sampling):
                self._check_sampling(value)
            elif isinstance(value, Stop):
                self._check_stop(value)
        if command.verb == "add_branch" and not 1 <= command.args[0] <= self.max_branches:
            raise LimitExceeded(command.args[0], self.max_branches)
        if self._closing:
            generation.abandon(EngineClosed("the engine is closed"))
            return
        if command.verb == "append":
            command = command._replace(args=(*command.args, *self._typed(generation, str(command.args[0]))))
        elif command.verb in ("reroll", "add_branch"):
            *_, begin, without = command.args
            self._refuse("without", bool(without))
            given = [value for value in command.values() if isinstance(value, Sampling)]
            at = max(command.branch, 0)
            _check_barred(without, given or [generation.branches[at].sampling])
            command = command._replace(args=(*command.args, self.pieces(begin)))
        with self._posting:
            self._commands.append(command)
            alone = len(self._commands) == 1
        if alone:
            self._loop.call_soon_threadsafe(self._obey)

    def _typed(self, generation: Generation, text: str) -> tuple[tuple[int, ...], Unfinished]:
        """The tokens of what a person typed, and which of them are to be healed."""
        ids = tuple(self.tokenize_continuation(text))
        heals = generation.request.heal and not self.lacks("heal")
        return ids, unfinished(self, ids, text) if heals else Unfinished()

    def _obey(self) -> None:
        """Carry out what was commanded; requests that came together are looked at together."""
        with self._posting:
            commands, self._commands = self._commands, []
        touched: dict[Run, None] = {}
        for command in commands:
            run = cast(Run, command.generation.engine_state)
            try:
                if not run.dead and command.verb != "submit":
                    self._verbs.obey(command, run)
            except Exception as error:
                log.exception("%s of a branch elsewhere failed", command.verb)
                run.lanes[command.branch].fail(EngineError(f"{command.verb}: {error!r}"))
            command.generation.arrived(command)
            touched[run] = None
        for run in touched:
            self._service.begin(run)
            run.publish(obeyed=True)

    def _question(self, ask: Callable[[Dialect], Awaitable[T]]) -> T:
        """What one of the addresses answers; tried some times. Raises RemoteError, EngineClosed."""

        async def work() -> T:
            for attempt in range(_ATTEMPTS):
                peer = self._pool.choose(())
                try:
                    dialect, _ = await peer.known()
                    return await ask(dialect)
                except RemoteError as error:
                    if not error.again or attempt + 1 == _ATTEMPTS:
                        raise
                    log.info("asked once more: %s", error)
                    if len(self._pool.peers) > 1:
                        peer.failed(error)
                await asyncio.sleep(self.options.first_wait * attempt)
            raise AssertionError

        return self._wait(work())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the loop makes of ``work``. Raises RemoteError, EngineClosed."""
        try:
            self._check_open()
            if threading.current_thread() is self._thread:
                raise EngineError("the engine cannot be asked to wait for an answer by its own callbacks")
        except EngineError:
            work.close()
            raise
        asked: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return asked.result(_TEMPLATE_SECONDS + self.options.connect_seconds)
        except (NotYet, TimeoutError):
            asked.cancel()
            raise EngineError(f"{self.profile.server} did not answer in time") from None

    def _check_open(self) -> None:
        if self._closing:
            raise EngineClosed("the engine was closed")


def _check_barred(without: Sequence[int], samplings: Iterable[Sampling]) -> None:
    """What follows a banned token's place is asked for in another request. Raises NotSupported."""
    if without and any(s.grammar or s.json_schema or s.regex for s in samplings):
        raise NotSupported(
            "tokens are banned in one place by two requests there, and a grammar cannot go on in the middle"
        )


def _check_schema(text: str) -> None:
    """Dialects send a schema as JSON. Raises InvalidRequest where the text is none."""
    try:
        schema: Any = msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidRequest("json_schema", f"it is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise InvalidRequest("json_schema", "a schema is a JSON object")
