"""The library face: load a model, submit requests, read what they become.

One thread owns the native context (or the caller, with ``thread=False``); every public method
here may be called from any thread.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .cache import Cache
from .generation import Command, Generation
from .model import Model
from .native.context import Context
from .native.weights import Progress, refuse_unsafe_tensors
from .parameters import validate
from .prompt import assemble, fit
from .scheduler import Scheduler
from .sizing import open_context, uses_gpu
from .steering import make_run
from .types import (
    EngineClosed,
    EngineError,
    EngineOptions,
    EngineStats,
    InvalidRequest,
    LimitExceeded,
    ModelInfo,
    NativeError,
    Request,
    Stop,
)

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 5e-4
"""Seconds. The engine thread asks for the GIL back after every decode; with Python's default of
5 ms, one busy thread makes a 2 ms step last 7 ms, with this 4 ms."""
INTERRUPTING = frozenset({"cancel", "stop", "kill", "reroll"})


class Engine:
    """A loaded model and the batch that runs on it. Make one with :meth:`load`."""

    def __init__(self, model: Model, context: Context, options: EngineOptions, window: int) -> None:
        self.model, self.options = model, options
        self.n_ctx = window
        self._context = context
        partial = model.partial_removal
        self._cache = Cache(
            context, partial=partial, parked_fraction=options.parked_fraction, logits_rows=options.logits_rows
        )
        abortable = partial and not uses_gpu(options) and context.enable_abort()
        self._scheduler = Scheduler(model, context, self._cache, options, window=window, abortable=abortable)
        self._numbers = itertools.count(1)
        self._seeds = itertools.count()
        self._seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        self._wake = threading.Event()
        self._closing = False
        self._dead: Exception | None = None
        self._failures = 0
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._thread: threading.Thread | None = None
        self._owner = threading.Lock()  # whoever steps

    # ---- life

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], options: EngineOptions | None = None, *,
        on_progress: Progress | None = None, thread: bool = True,
    ) -> Engine:
        """Load a GGUF model and make it ready to write.

        ``on_progress`` gets a fraction from 0 to 1 and cancels by returning False. With
        ``thread=False`` nothing happens until the caller calls :meth:`process`.
        Raises ModelError, or Cancelled.
        """
        options = options or EngineOptions()
        file = Path(path).expanduser()
        refuse_unsafe_tensors(file)
        model = Model(file, options, on_progress)
        try:
            context, window = open_context(model, options)
        except EngineError:
            model.close()
            raise
        engine = cls(model, context, options, window)
        if thread:
            engine._start()
        log.info("%s is ready: %d cells, %d tokens a branch", model.name, context.cells, window)
        return engine

    def close(self, timeout: float = 5.0) -> None:
        """End every request (readers are told) and free the model. May be called twice."""
        if self._closing:
            return
        self._closing = True
        self._wake.set()
        self._context.abort()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            if self._thread.is_alive():
                log.error("the engine thread did not end; its memory is left to the system")
                self._abandon(EngineClosed("the engine was closed"))
                return
        self._abandon(EngineClosed("the engine was closed"))
        for run in self._scheduler.lanes.runs:
            run.close()
        self._context.close()
        self.model.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Forget every cached prefix. Running requests are ended first."""
        self.call(lambda: self._scheduler.fail_all(EngineClosed("the engine was reset")))

    # ---- work

    def submit(self, request: Request) -> Generation:
        """Queue a request; its branches start writing on their own.

        Raises InvalidRequest (LimitExceeded for n), ContextOverflow or EngineClosed.
        """
        self._check_open()
        self._check(request)
        ids, heal_prefix = assemble(self.model, request)
        fitted = fit(ids, request, self.n_ctx)
        generation = Generation(next(self._numbers), request, self._post)
        generation.truncated = len(fitted) != len(ids)
        generation.prompt_ids = tuple(fitted)
        generation.healed = heal_prefix.decode("utf-8", "replace")
        sampling = request.sampling[0] if isinstance(request.sampling, tuple) else request.sampling
        seed = sampling.seed if sampling.seed is not None else self._seed + 7919 * next(self._seeds)
        make_run(generation, fitted, heal_prefix, seed, self.model)
        self._generations.add(generation)
        self._post(Command("submit", generation))
        return generation

    def process(self, timeout: float | None = None) -> bool:
        """Do one step on the caller's thread; False when there was nothing to do for ``timeout`` seconds."""
        if self._thread is not None:
            raise EngineClosed("this engine has a thread of its own; load it with thread=False to step it")
        self._check_open()
        if self._step():
            return True
        if timeout:
            self._wake.wait(timeout)
        self._wake.clear()
        return self._step()

    def call(self, function: Callable[[], Any], timeout: float | None = 30.0) -> Any:
        """Run ``function`` between two steps and return its result (raise its error)."""
        done = threading.Event()
        box: list[Any] = []

        def run() -> None:
            try:
                box.append((True, function()))
            except Exception as error:
                box.append((False, error))
            done.set()

        self._check_open()
        self._post(Command("call", _NOBODY, -1, (run,)))
        if self._thread is None:
            self._step()
        if not done.wait(timeout):
            raise EngineClosed("the engine did not answer")
        good, value = box[0]
        if not good:
            raise value
        return value

    def flush(self) -> None:
        """Return when every command given so far has been carried out."""
        self.call(lambda: None)

    # ---- words and numbers

    @property
    def info(self) -> ModelInfo:
        model = self.model
        return ModelInfo(
            path=str(model.path), name=model.name, description=model.description,
            architecture=model.architecture, n_params=model.n_params, size=model.size, n_vocab=model.n_vocab,
            n_ctx_train=model.n_ctx_train,
            n_ctx=self.n_ctx, n_embd=model.n_embd, vocab=model.fingerprint, chat_template=model.chat_template,
            metadata=model.metadata,
        )

    @property
    def max_branches(self) -> int:
        """Live branches at once; more than that in one request is refused."""
        return self.options.max_branches

    @property
    def bos(self) -> int | None:
        return self.model.bos

    @property
    def eos(self) -> int | None:
        return self.model.eos

    @property
    def fim(self) -> tuple[int, int, int] | None:
        """Ids of the fill-in-the-middle tokens (prefix, suffix, middle), if the model has them."""
        return self.model.fim

    @property
    def alive(self) -> bool:
        return not self._closing and self._dead is None

    @property
    def busy(self) -> bool:
        """Whether any request is running or waiting."""
        return bool(self._scheduler.lanes.runs or self._scheduler.commands)

    @property
    def raw_ctx(self) -> int:
        """The native ``llama_context *``. Only for use inside :meth:`call`, at the caller's own risk."""
        return self._context.pointer

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        return self.model.tokenize(text, add_bos, parse_special)

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Text of ``ids``; control tokens are left out unless ``special``. Raises InvalidRequest."""
        return self.model.detokenize(ids, special)

    def token_bytes(self, token: int) -> bytes:
        return self.model.token_bytes(token)

    def token(self, text: str) -> int | None:
        """Id of the single token ``text``, special ones included, or None."""
        return self.model.token(text)

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, add_generation_prompt: bool = True,
        continue_final_message: bool = False, tools: Sequence[Mapping[str, Any]] | None = None,
        template: str | None = None, **kwargs: Any,
    ) -> str:
        """Messages as one prompt, by the model's own template, or ChatML if it has none.

        Raises InvalidRequest for messages or templates that do not fit together.
        """
        from .chat import render  # brings Jinja along, which only conversations need

        model = self.model
        return render(
            template or model.chat_template, messages, add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message, tools=tools,
            bos=_special_text(model, model.bos), eos=_special_text(model, model.eos), **kwargs,
        )

    def create_chat_completion(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> Generation:
        """Submit a conversation; the reply is the text of its branches.

        ``settings`` are fields of :class:`Request` other than the prompt. Raises InvalidRequest.
        """
        from .chat import stop_strings_for

        request = Request(self.apply_template(messages), parse_special=True, **settings)
        ends = stop_strings_for(self.model.chat_template)
        return self.submit(replace(request, stop=_with_strings(request.stop, ends)))

    # ---- the cache

    def pin(self, name: str, ids: Sequence[int]) -> None:
        """Keep the prefix ``ids`` in the cache rather than others; a second pin of a name moves it."""
        self.model.check_ids(ids)
        self.call(lambda: self._cache.pins.__setitem__(name, tuple(ids)))

    def unpin(self, name: str) -> None:
        self.call(lambda: self._cache.pins.pop(name, None))

    def resident(self, ids: Sequence[int]) -> int:
        """How many tokens of ``ids`` need not be evaluated now."""
        return int(self.call(lambda: self._cache.resident(ids)))

    def stats(self) -> EngineStats:
        """The counters now. Read without waiting for the engine, so a step may be half counted."""
        scheduler, cache = self._scheduler, self._cache
        counters, admission, runs = scheduler.counters, scheduler.admission, list(scheduler.lanes.runs)
        return EngineStats(
            prompt_tokens=admission.prompt_tokens, reused_tokens=admission.reused_tokens,
            prompt_rows=counters.prompt_rows, branch_rows=counters.branch_rows,
            generated_tokens=scheduler.writer.generated, decodes=counters.decodes,
            prompt_seconds=counters.prompt_seconds, decode_seconds=counters.decode_seconds,
            used_cells=cache.tree.cells, total_cells=self._context.cells,
            used_sequences=cache.used_sequences, total_sequences=self._context.sequences,
            logits_rows=cache.tree.stored_rows, live_branches=scheduler.lanes.branch_count,
            waiting_requests=sum(1 for r in runs if not r.admitted),
            running_requests=sum(1 for r in runs if r.admitted),
        )

    # ---- inside

    def _check(self, request: Request) -> None:
        if request.n < 1:
            raise InvalidRequest("n", f"must be at least 1, got {request.n}")
        if request.n > self.max_branches:
            raise LimitExceeded(request.n, self.max_branches)
        for name, value in (("sampling", request.sampling), ("stop", request.stop)):
            if isinstance(value, tuple) and len(value) != request.n:
                raise InvalidRequest(name, f"one for each of {request.n} branches, got {len(value)}")
        for sampling in request.sampling if isinstance(request.sampling, tuple) else (request.sampling,):
            validate(sampling)

    def _check_open(self) -> None:
        if self._dead is not None:
            raise EngineClosed(f"the engine has failed: {self._dead}")
        if self._closing:
            raise EngineClosed("the engine is closed")

    def _post(self, command: Command) -> None:
        if not self.alive:
            if command.generation is not _NOBODY:
                command.generation.abandon(EngineClosed("the engine is closed"))
            return
        self._scheduler.commands.append(command)
        if command.verb in INTERRUPTING:
            self._scheduler.interrupt(command.generation)
        self._wake.set()

    def _start(self) -> None:
        if sys.getswitchinterval() > SWITCH_INTERVAL:
            sys.setswitchinterval(SWITCH_INTERVAL)
        self._thread = threading.Thread(target=self._loop, name="srbwriter-engine", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._closing:
            self._wake.clear()
            if not self._step():
                self._wake.wait()
        log.debug("the engine thread ends")

    def _step(self) -> bool:
        """One step. A failure ends the running requests, not the engine, unless it keeps failing."""
        if self._closing or self._dead is not None:
            return False
        with self._owner:
            try:
                busy = self._scheduler.step()
                self._failures = 0
                return busy
            except Exception as error:
                log.exception("an engine step failed")
                self._failures += 1
                self._recover(error)
                return True

    def _recover(self, error: Exception) -> None:
        shown = error if isinstance(error, EngineError) else NativeError("engine step", repr(error))
        try:
            self._scheduler.fail_all(shown)
        except Exception as second:
            log.exception("the engine could not recover")
            self._failures = 3
            error = second
        if self._failures >= 3:
            self._dead = error
            self._abandon(EngineClosed(f"the engine has failed: {error}"))

    def _abandon(self, error: EngineClosed) -> None:
        for generation in list(self._generations):
            generation.abandon(error)


_NOBODY: Any = None  # commands that concern no request


def _with_strings(stop: Stop | tuple[Stop, ...], strings: Sequence[str]) -> Stop | tuple[Stop, ...]:
    if isinstance(stop, tuple):
        return tuple(replace(s, strings=(*s.strings, *strings)) for s in stop)
    return replace(stop, strings=(*stop.strings, *strings))


def _special_text(model: Model, token: int | None) -> str:
    return "" if token is None else model.special_pieces[token].decode("utf-8", "replace")
