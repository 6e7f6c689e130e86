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
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from srbwriter.paths import expanded

from .active import ActiveRequest
from .backend import close_at_exit
from .cache import Cache
from .capabilities import Capabilities, Feature
from .checks import Checks
from .commands import FunctionCall, make_request, prepare
from .disk import StoryFiles, read_session, state_key, write_session
from .embedding import Embedder, Embedding, Pooling
from .generation import BranchCommand, Generation
from .infill import NO_MARKS
from .model import Model
from .native.context import Context, flash_attention
from .native.spin import on_own_thread
from .native.weights import Progress, load_adapter
from .prompt import assemble
from .sampling import check_rules
from .scheduler import Scheduler
from .sequences import Sequences
from .sizing import (
    check_cache_types,
    check_options,
    host_budget,
    open_context,
    threads_of,
    uses_gpu,
    where_it_runs,
)
from .tree import PRIVATE
from .types import (
    EngineClosed,
    EngineError,
    EngineOptions,
    EngineStats,
    InvalidRequest,
    ModelInfo,
    NativeError,
    NotSupported,
    Priority,
    Request,
    describe_error,
    for_each,
)
from .window import fit

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 5e-4
"""Seconds. The engine thread asks for the GIL back after every decode; with Python's default of
5 ms, one busy thread makes a 2 ms step last 7 ms, with this 4 ms."""
LOGITS_BYTES = 64 << 20
"""Of stored logits, at most; they take an eighth of what states may take in memory."""


class Engine:
    """A loaded model and the batch that runs on it. Make one with :meth:`load`.

    Attributes:
        n_ctx: tokens that the prompt and text of one branch may have together.
        max_branches: live branches at once; more than that in one request is refused.
        bos: the token that begins a text, if there is one; before every prompt if ``add_bos``.
        eos: the token that ends a text, if there is one; ``eog`` are all of these.
        fim: the fill-in-the-middle tokens (prefix, suffix, middle), if the model has them.
    """

    def __init__(self, model: Model, context: Context, options: EngineOptions, window: int) -> None:
        self.model, self.options, self.adapters = model, options, options.lora
        self.n_ctx, self.max_branches = window, options.max_branches
        self.bos, self.add_bos, self.eos, self.eog = model.bos, model.add_bos, model.eos, model.eog
        self.fim = model.fim
        self._seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        self._numbers, self._seeds = itertools.count(1), itertools.count()
        self._device = where_it_runs(options, model.n_layer)
        self._checks = Checks(model.n_vocab, options.max_branches, partial(check_rules, model))
        self._generations = generations = weakref.WeakSet[Generation]()
        self._known = known = threading.Lock()  # of the generations, while they are looked through

        def visible_paths() -> Iterator[tuple[Sequence[int], str]]:
            """Yield the paths that a reader still knows, the newest first."""
            with known:
                shown = [g for g in generations if g.request.priority is not Priority.BACKGROUND]
            for generation in sorted(shown, key=lambda g: -g.number):
                request = generation.engine_state
                if isinstance(request, ActiveRequest):
                    yield from ((active.path, active.salt) for active in request.branches)

        disk = None
        if options.disk_dir is not None and options.disk_bytes:
            disk = StoryFiles(Path(options.disk_dir), self._session_key, options.disk_bytes)
        host, on_gpu = host_budget(options.host_bytes), uses_gpu(options)
        rows = max(64, min(LOGITS_BYTES, host // 8) // (4 * model.n_vocab))
        self._context = context
        self._cache = Cache(
            context, logits_rows=options.logits_rows or rows, on_device=on_gpu, host_bytes=host, files=disk,
            visible_paths=visible_paths,
        )  # fmt: skip
        abortable = self._cache.can_rewind and not on_gpu
        if abortable:
            context.enable_abort()
        self._scheduler = scheduler = Scheduler(
            model, context, self._cache, options, window=window, abortable=abortable,
            threads=threads_of(options),
        )  # fmt: skip
        self.embedder = Embedder(model, options, window, lambda: scheduler.queue.busy)
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._closing = False
        self._dead: BaseException | None = None  # why it failed for good
        self._owner = threading.Lock()  # the right to step
        self._stepper = 0  # thread that is in a step

    # ---- life

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        options: EngineOptions | None = None,
        *,
        on_progress: Progress | None = None,
        thread: bool = True,
    ) -> Engine:
        """Load a GGUF model and make it ready to write.

        ``on_progress`` gets a fraction from 0 to 1, on another thread, and cancels by returning False. With
        ``thread=False`` nothing happens until the caller calls :meth:`process`.
        Raises ModelError, or Cancelled.
        """
        chosen = options or EngineOptions()
        check_options(chosen)
        given_up = threading.Event()

        def progress(fraction: float) -> bool:
            return not given_up.is_set() and (on_progress is None or on_progress(fraction) is not False)

        try:
            file = expanded(path)
            engine = on_own_thread(lambda: cls._load(file, chosen, progress), "srbwriter-weights")
        except KeyboardInterrupt:  # nobody waits for the weights any more
            given_up.set()
            raise
        if thread:
            engine._start()
        cells = engine._context.cells
        log.info("%s is ready: %d cells, %d tokens a branch", engine.model.name, cells, engine.n_ctx)
        return engine

    @classmethod
    def _load(cls, file: Path, options: EngineOptions, on_progress: Progress) -> Engine:
        check_cache_types(file, options)
        model = Model(file, options, on_progress)
        try:
            model.adapters = [
                (load_adapter(model.pointer, expanded(name)), scale) for name, scale in options.lora
            ]
            context, window = open_context(model, options)
        except EngineError:
            model.close()
            raise
        return cls(model, context, options, window)

    def close(self, timeout: float = 5.0) -> None:
        """End every request, notify readers, and free the model. May be called twice."""
        if self._closing:
            return
        self._closing = True
        self.embedder.close(timeout)
        self._wake.set()
        self._context.abort()
        if self._stepper == threading.get_ident():
            return  # called from a callback: the step frees everything when it ends
        if self._owner.acquire(timeout=timeout):
            self._release()
            self._owner.release()
        else:
            log.error("the engine is still in a step, and is freed when that ends")
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Forget every cached prefix, on disk too. Running requests are ended first."""

        def forget() -> None:
            if self._cache.files is not None:
                self._cache.files.clear()
            self._scheduler.fail_all(EngineClosed("the engine was reset"))

        self.call(forget)

    # ---- work

    def submit(self, request: Request) -> Generation:
        """Queue a request; its branches start writing on their own.

        Raises InvalidRequest (LimitExceeded for n), ContextOverflow or EngineClosed.
        """
        self._check_open()
        self._checks.check_request(request)
        ids, healed = assemble(self.model, request)
        if healed.tokens:
            _ = self.model.piece_index  # made here, if this is the first
        fitted = fit(ids, request, self.n_ctx)
        generation = Generation(next(self._numbers), request, self._post)
        generation.truncated = len(fitted) != len(ids)
        generation.prompt_ids = tuple(fitted)
        generation.healed, generation.healed_tokens = healed.text, healed.tokens
        asked = for_each(request.sampling, 1)[0].seed
        seed = asked if asked is not None else self._seed + 7919 * next(self._seeds)
        salt = request.cache_salt if request.cache_prompt else f"{PRIVATE}{generation.number}"
        make_request(generation, fitted, healed.text.encode(), seed, self.model, self._context.cells, salt)
        with self._known:
            self._generations.add(generation)
        self._post(BranchCommand("submit", generation))
        return generation

    def process(self, timeout: float | None = None) -> bool:
        """Do one step on the caller's thread; False when there was nothing to do for ``timeout`` seconds."""
        if self._thread is not None:
            raise EngineClosed("this engine has a thread of its own; load it with thread=False to step it")
        self._check_open()
        self._refuse_reentry()
        self._wake.clear()  # before the step, so that what comes in while it runs is not slept over
        if self._step():
            return True
        rest = self._scheduler.seconds_to_work(time.monotonic())
        if rest == 0:  # what is written ahead may begin since this step did
            return self._step()
        seconds = None if rest is None else min(timeout or 0.0, rest)
        if not timeout or not self._wake.wait(timeout if seconds is None else seconds) and rest is None:
            return False
        return self._step()

    @property
    def sequences(self) -> Sequences:
        """Return the low-level interface for callers with their own loop; it holds the engine meanwhile."""
        if self._thread is not None:
            raise NotSupported("this engine steps by itself; load it with thread=False to own the loop")
        return self._sequences

    @cached_property
    def _sequences(self) -> Sequences:
        return Sequences(self.model, self._scheduler, self.n_ctx, self._turn, self._seed)

    def call(self, function: Callable[[], Any], timeout: float | None = 30.0) -> Any:
        """Run ``function`` between two steps and return its result (raise its error)."""
        self._check_open()
        self._refuse_reentry()
        asked = Future[Any]()
        self._scheduler.inbox.append(FunctionCall(asked, function))
        self._wake.set()
        if self._thread is None:
            self._step()
        if not self.alive:
            self._abandon()
        try:
            return asked.result(timeout)
        except (CancelledError, TimeoutError):
            asked.cancel()
            self._check_open()
            raise EngineClosed("the engine did not answer") from None

    def flush(self) -> None:
        """Return when every command given so far has been carried out."""
        self.call(lambda: None)

    # ---- words and numbers

    @property
    def info(self) -> ModelInfo:
        return self.model.info(self.n_ctx, self._device)

    @property
    def alive(self) -> bool:
        return not self._closing and self._dead is None

    @property
    def busy(self) -> bool:
        """Whether any request is running or waiting."""
        return bool(self._scheduler.queue.requests or self._scheduler.inbox)

    @property
    def raw_ctx(self) -> int:
        """The native ``llama_context *``. Only for use inside :meth:`call`, at the caller's own risk."""
        return self._context.pointer

    def tokenize(self, text: str, add_bos: bool = False, parse_special: bool = False) -> list[int]:
        return self.model.tokenize(text, add_bos, parse_special)

    def tokenize_continuation(self, text: str) -> list[int]:
        return self.model.tokenize_continuation(text)

    def detokenize(self, ids: Sequence[int], special: bool = False) -> str:
        """Text of ``ids``; control tokens are left out unless ``special``. Raises InvalidRequest."""
        return self.model.detokenize(ids, special)

    def pieces(self, ids: Sequence[int]) -> list[bytes]:
        """What each token adds to a text. Raises InvalidRequest."""
        return self.model.token_pieces(ids)

    def token_bytes(self, token: int) -> bytes:
        return self.model.token_bytes(token)

    def token(self, text: str) -> int | None:
        """Id of the single token ``text``, special ones included, or None."""
        return self.model.token(text)

    def apply_template(
        self, messages: Sequence[Mapping[str, Any]], *, template: str | None = None, **options: Any
    ) -> str:
        """Messages as one prompt, by the model's own template, or ChatML if it has none.

        ``options`` are those of :func:`.chat.render`. Raises InvalidRequest for messages or templates that do
        not fit together.
        """
        from .chat import render  # brings Jinja along, which only conversations need

        bos, eos = map(self.model.special_text, (self.model.bos, self.model.eos))
        return render(template or self.model.chat_template, messages, bos=bos, eos=eos, **options)

    def create_chat_completion(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> Generation:
        """Submit a conversation; the reply is the text of its branches.

        ``settings`` are fields of :class:`Request` other than the prompt. Raises InvalidRequest.
        """
        request = Request(self.apply_template(messages), parse_special=True, **settings)
        if self.model.chat_template is None:  # then the end mark of ChatML is mere text
            stops = tuple(
                replace(each, strings=(*each.strings, "<|im_end|>")) for each in for_each(request.stop, 1)
            )
            request = replace(request, stop=stops if isinstance(request.stop, tuple) else stops[0])
        return self.submit(request)

    # ---- other uses of the model

    def embed(
        self, texts: Sequence[str | Sequence[int]], pooling: Pooling | None = None, normalize: int = 2
    ) -> list[Embedding]:
        """Return the vectors of texts. Blocks until they are computed, beside running requests.

        ``pooling`` says how the vectors of a text's tokens become one; None leaves it to the model.
        ``normalize`` counts as llama.cpp does: 2 is length 1, -1 as they are. Raises InvalidRequest,
        ContextOverflow for a text that is too long, or EngineClosed.
        """
        return self.embedder.embed(texts, pooling, normalize).result()

    # ---- the cache

    def stand_back(self) -> None:
        """Pause prefetches for a moment: the handling of a pressed key needs the cores."""
        self._scheduler.pause_background()

    def resident(self, ids: Sequence[int], salt: str = "") -> int:
        """How many tokens of ``ids`` need not be evaluated now: they are in cells, in memory or on disk."""
        self.model.check_ids(ids)

        def count() -> int:
            self._cache.read_story(ids, salt)
            return self._cache.count_held(ids, salt)

        return int(self.call(count))

    def save_session(
        self, path: str | os.PathLike[str], ids: Sequence[int], salt: str = ""
    ) -> tuple[int, int]:
        """Write ``ids`` to a file, with the state of those that the cache holds; tokens and bytes written.

        ``salt`` is that of the requests that evaluated them. The file is not bound to it.
        Raises OSError, or InvalidRequest when nothing is held of them.
        """
        self.model.check_ids(ids)
        states = self.call(lambda: self._cache.collect_states(ids, salt), timeout=None)
        if not states:
            raise InvalidRequest("session", "nothing of this text is in the cache")
        return len(ids), write_session(Path(path), self._session_key, ids, states)

    def load_session(self, path: str | os.PathLike[str], salt: str = "") -> list[int]:
        """Take back what :meth:`save_session` wrote; its token ids. Those with a state are not evaluated.

        ``salt`` is that of the requests that it is for.
        Raises OSError, or InvalidRequest for a file that is damaged or another model's.
        """
        try:
            ids, states = read_session(Path(path), self._session_key)
        except ValueError as error:
            raise InvalidRequest("session", f"{os.fspath(path)} is {error}") from error
        self.call(lambda: self._cache.add_states(ids, states, salt))
        return ids

    def stats(self) -> EngineStats:
        """The counters now. Read without waiting for the engine, so a step may be half counted."""
        scheduler, cache = self._scheduler, self._cache
        queue = scheduler.queue
        return EngineStats(
            prompt_tokens=queue.prompt_tokens,
            reused_tokens=queue.reused_tokens,
            generated_tokens=scheduler.loop.generated,
            **asdict(scheduler.counters),
            used_cells=cache.used_cells,
            total_cells=self._context.cells,
            used_sequences=cache.used_sequences,
            host_bytes=cache.tree.stored_bytes,
            disk_bytes=0 if cache.files is None else cache.files.bytes,
            saved_tokens=cache.saved_tokens,
            restored_tokens=cache.restored_tokens,
            live_branches=len(queue.running),
            waiting_requests=sum(all(b.seq < 0 for b in r.branches) for r in list(queue.requests)),
        )

    @property
    def capabilities(self) -> Capabilities:
        """What this model can do."""
        rows: tuple[tuple[bool, Feature, str], ...] = (
            (self.model.chat_template is not None, "chat_template", "the model's file has no chat template"),
            (self.model.fim is not None, "gap_filling", NO_MARKS),
        )
        return Capabilities({feature: why for there, feature, why in rows if not there})

    # ---- inside

    @cached_property
    def _session_key(self) -> str:
        """Names the states that this engine makes."""
        options = self.options
        adapters = (f"{state_key(expanded(name))} {scale}" for name, scale in options.lora)
        kind = (options.cache_type_k, options.cache_type_v, flash_attention(options), *adapters)
        return state_key(self.model.path, *kind)

    def _check_open(self) -> None:
        """Raise EngineClosed, with the reason, when nothing can be asked of the engine any more."""
        if self._dead is not None:
            words = str(self._dead) if isinstance(self._dead, EngineError) else describe_error(self._dead)
            raise EngineClosed(f"the engine has failed: {words}")
        if self._closing:
            raise EngineClosed("the engine was closed")

    def _refuse_reentry(self) -> None:
        if self._stepper == threading.get_ident():
            raise EngineError("the engine cannot be asked to step, or to wait for one, by its own callbacks")

    def _post(self, command: BranchCommand) -> None:
        """Give a command to the stepping thread. Raises InvalidRequest for one that cannot be carried out."""
        self._checks.check_command(command)
        prepare(command, self.model)
        command.generation.expect(command)
        try:
            self._check_open()
        except EngineClosed as error:
            command.generation.abandon(error)
            return
        self._scheduler.inbox.append(command)
        self._scheduler.interrupt()
        self._wake.set()

    @contextmanager
    def _turn(self) -> Generator[None]:
        """The right to use the context between two steps."""
        self._check_open()
        self._refuse_reentry()
        with self._owner:
            self._check_open()
            self._stepper = threading.get_ident()
            try:
                yield
            finally:
                self._stepper = 0
                if self._closing:
                    self._release()

    def _start(self) -> None:
        """Step on a thread of the engine's own from now on."""
        if sys.getswitchinterval() > SWITCH_INTERVAL:
            sys.setswitchinterval(SWITCH_INTERVAL)
        self._scheduler.overlaps = uses_gpu(self.options)
        self._thread = threading.Thread(target=self._run, name="srbwriter-engine", daemon=True)
        self._thread.start()
        close_at_exit(self)

    def _run(self) -> None:
        """Step until the engine is closed."""
        nice = self.options.nice
        if nice and sys.platform == "linux":  # elsewhere it is one number for the whole process
            thread = threading.get_native_id()  # llama.cpp's threads are made by this one and follow it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, 0) + nice)
        try:
            while self.alive:
                self._wake.clear()
                if not self._step():
                    self._wake.wait(self._scheduler.seconds_to_work(time.monotonic()))
        except BaseException as error:  # nothing that foreign code raises; but nobody is to wait for ever
            log.critical("the engine thread ends", exc_info=error)
            self._dead = error
            self._abandon()

    def _step(self) -> bool:
        """One step. A failure ends the running requests, not the engine, unless that fails, too."""
        with self._owner:
            if not self.alive:
                return False
            self._stepper = threading.get_ident()
            try:
                busy = self._scheduler.step()
            except BaseException as error:
                self._recover(error)
                busy = True
                if not isinstance(error, Exception) and self._thread is None:
                    raise  # a Ctrl-C, say, of the caller that steps
            finally:
                self._stepper = 0
                if self._closing:
                    self._release()
            return busy

    def _recover(self, error: BaseException) -> None:
        log.error("an engine step failed", exc_info=error)
        try:
            known = isinstance(error, EngineError)
            self._scheduler.fail_all(error if known else NativeError("engine step", repr(error)))
        except BaseException as second:
            log.exception("the engine could not recover")
            self._dead = second
            self._abandon()

    def _abandon(self) -> None:
        """Fail all waiting commands and requests."""
        try:
            self._check_open()
        except EngineClosed as error:
            for generation in list(self._generations):
                generation.abandon(error)
        for command in list(self._scheduler.inbox):
            if isinstance(command, FunctionCall):
                command.asked.cancel()

    def _release(self) -> None:
        """Free native memory; only for the holder of the right to step."""
        self._abandon()
        files = self._cache.files
        if files is not None and self._dead is None:
            try:
                self._cache.write_story(at_end=True)
            except EngineError as error:
                log.warning("the story's state is not written: %s", error)
        if files is not None:
            files.close()
        self._scheduler.loop.pool.close()
        self._context.close()
        self.model.close()
