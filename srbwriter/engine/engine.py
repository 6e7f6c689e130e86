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
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from srbwriter.paths import expanded

from .active import ActiveRequest
from .adapters import Adapters, AdapterSet, Turns, key_of
from .cache import Cache
from .commands import make_request, prepared
from .disk import DiskCache, read_session, state_key, write_session
from .embedding import Embedder, Embedding, Pooling, Score
from .ending import close_at_exit
from .generation import INTERRUPTING, Command, Generation
from .memory import host_budget
from .model import Model
from .native.adapters import set_adapters
from .native.context import Context, flash_attention
from .native.spin import on_own_thread
from .native.weights import Progress, refuse_unsafe_tensors
from .prompt import assemble
from .scheduler import Scheduler
from .sequences import Sequences
from .sizing import open_alone, open_context, setup_of, threads_of, uses_gpu, where_it_runs
from .strict import CHUNK
from .tree import SHARED, Namespace, common_prefix
from .types import (
    EngineClosed,
    EngineError,
    EngineOptions,
    EngineSetup,
    EngineStats,
    InvalidRequest,
    ModelInfo,
    NativeError,
    NotSupported,
    Priority,
    Request,
)
from .validate import check_command, check_options, check_request
from .window import fit

log = logging.getLogger(__name__)

SWITCH_INTERVAL = 5e-4
"""Seconds. The engine thread asks for the GIL back after every decode; with Python's default of
5 ms, one busy thread makes a 2 ms step last 7 ms, with this 4 ms."""


LOGITS_BYTES = 64 << 20
COMMON_TEXTS = 32
"""Texts whose tokens are remembered because many prompts may begin with them."""


class Engine:
    """A loaded model and the batch that runs on it. Make one with :meth:`load`."""

    def __init__(
        self, model: Model, context: Context, options: EngineOptions, window: int, adapters: Adapters
    ) -> None:
        self.model, self.options, self.adapters = model, options, adapters
        self.n_ctx = window
        self._context = context
        self._generations: weakref.WeakSet[Generation] = weakref.WeakSet()
        self._known = threading.Lock()  # of the generations, while they are looked through
        disk = None
        if options.disk_dir is not None:
            disk = DiskCache(Path(options.disk_dir), self._state_key, options.disk_bytes)
        self._cache = Cache(
            context, logits_rows=options.logits_rows or max(64, LOGITS_BYTES // (4 * model.n_vocab)),
            host_bytes=host_budget(options.host_bytes), disk=disk,
            screen=self._on_screen, evaluated_with=adapters.names,
        )  # fmt: skip
        abortable = context.cuttable and not uses_gpu(options) and context.enable_abort()
        self._wake = threading.Event()
        turns = Turns(adapters, lambda chosen: set_adapters(context.pointer, chosen)) if adapters else None
        self._scheduler = Scheduler(
            model, context, self._cache, options, window=window, abortable=abortable,
            threads=threads_of(options), wake=self._wake.set, open_alone=self._open_alone, turns=turns,
        )  # fmt: skip
        self._device = where_it_runs(options, model.n_layer)
        self._common_ids = lru_cache(COMMON_TEXTS)(self._tokenize_common)
        self._numbers = itertools.count(1)
        self._seeds = itertools.count()
        self._seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        self._closing = False
        self._dead: Exception | None = None
        self._failures = 0
        self._thread: threading.Thread | None = None
        self.embedder = Embedder(model, options, window, self._scheduler.queue.wanted, adapters)
        self._scheduler.queue.elsewhere = lambda: self.embedder.working
        self._owner = threading.Lock()  # the right to step
        self._stepper = 0  # thread that is in a step
        self._sequences = Sequences(
            model, context, self._cache, self._scheduler, window, self._turn, self._seed
        )

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
        log.info(
            "%s is ready: %d cells, %d tokens a branch",
            engine.model.name,
            engine._context.cells,
            engine.n_ctx,
        )
        return engine

    @classmethod
    def _load(cls, file: Path, options: EngineOptions, on_progress: Progress) -> Engine:
        refuse_unsafe_tensors(file)
        model = Model(file, options, on_progress)
        try:
            adapters = Adapters(model, options.lora)
            context, window = open_context(model, options)
        except EngineError:
            model.close()
            raise
        return cls(model, context, options, window, adapters)

    def close(self, timeout: float = 5.0) -> None:
        """End every request (readers are told) and free the model. May be called twice."""
        if self._closing:
            return
        self._closing = True
        self.embedder.close(timeout)
        self._wake.set()
        self._context.abort()
        if self._stepping():
            return  # called from a callback: the step frees everything when it ends
        if self._owner.acquire(timeout=timeout):
            self._release()
            self._owner.release()
        else:
            log.error("the engine is still in a step, and is freed when that ends")
        if self._thread is not None:
            self._thread.join(timeout)

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def reset(self) -> None:
        """Forget every cached prefix, on disk too. Running requests are ended first."""

        def forget() -> None:
            if self._cache.storage.disk is not None:
                self._cache.storage.disk.clear()
            self._scheduler.fail_all(EngineClosed("the engine was reset"))

        self.call(forget)

    def _open_alone(self, root: int) -> Context:
        """A context for strict requests with the adapters of a root of the tree. Raises ModelError."""
        context = open_alone(self.model, self.options, self.n_ctx, CHUNK)
        if self.adapters:
            set_adapters(context.pointer, self.adapters.pointers(self.adapters.of(root)))
        return context

    # ---- work

    def submit(self, request: Request) -> Generation:
        """Queue a request; its branches start writing on their own.

        Raises InvalidRequest (LimitExceeded for n), ContextOverflow or EngineClosed.
        """
        self._check_open()
        if self.options.strict:
            request = replace(request, strict=True)
        check_request(request, self.model, self.max_branches)
        chosen = self.adapters.resolve(request.lora)
        ids, healed = assemble(self.model, request)
        if healed.tokens:
            _ = self.model.piece_index  # made here, if this is the first
        fitted = fit(ids, request, self.n_ctx)
        generation = Generation(next(self._numbers), request, self._post)
        generation.truncated = len(fitted) != len(ids)
        generation.prompt_ids = tuple(fitted)
        generation.healed, generation.healed_tokens = healed.text, healed.tokens
        sampling = request.sampling[0] if isinstance(request.sampling, tuple) else request.sampling
        seed = sampling.seed if sampling.seed is not None else self._seed + 7919 * next(self._seeds)
        namespace = self._namespace(generation, fitted, chosen)
        make_request(
            generation, fitted, healed.text.encode(), seed, self.model, self._context.cells, namespace
        )
        with self._known:
            self._generations.add(generation)
        self._post(Command("submit", generation))
        return generation

    def _namespace(self, generation: Generation, ids: Sequence[int], chosen: AdapterSet) -> Namespace:
        """Return the namespace of a request: what is evaluated in another is nothing to it.

        Values that one set of adapters made mean nothing under another.
        """
        request = generation.request
        alone = not request.cache_prompt or not self.adapters.shared(chosen)
        root = generation.number if alone else SHARED.root
        if self.adapters:
            root = self.adapters.root(chosen, root)
            if alone:
                weakref.finalize(generation, self.adapters.forget, root)
        return self._salted(ids, request.cache_salt, request.common, root)

    def _salted(
        self, ids: Sequence[int], salt: str, common: Sequence[str], root: int = SHARED.root
    ) -> Namespace:
        """Return the namespace of ``ids`` under a salt, which begins behind the longest ``common`` text."""
        if not salt:
            return Namespace(root)
        begins = [self._common_ids(text, special) for text in common for special in (False, True)]
        if ids[:1] != [self.bos]:
            begins = [begin[1:] if begin[:1] == (self.bos,) else begin for begin in begins]
        start = max((common_prefix(begin, ids, 0, len(ids)) for begin in begins), default=0)
        return Namespace(root, salt, 0 if start == 1 and ids[0] == self.bos else start)

    def _tokenize_common(self, text: str, parse_special: bool) -> tuple[int, ...]:
        """Return a text as it stands at the beginning of a prompt."""
        ids = self.model.tokenize(text, False, parse_special)
        bos = self.model.bos
        return (bos, *ids) if self.model.add_bos and bos is not None and ids[:1] != [bos] else tuple(ids)

    def process(self, timeout: float | None = None) -> bool:
        """Do one step on the caller's thread; False when there was nothing to do for ``timeout`` seconds."""
        if self._thread is not None:
            raise EngineClosed("this engine has a thread of its own; load it with thread=False to step it")
        self._check_open()
        self._refuse_reentry()
        self._wake.clear()  # before the step, so that what comes in while it runs is not slept over
        if self._step():
            return True
        if self._scheduler.queue.asking:  # nothing to do until a slow grammar has been asked
            self._wake.wait()
            return self._step() or True
        rest = self._scheduler.rest()
        if rest == 0:  # what is written ahead may begin since this step did
            return self._step()
        if (
            not timeout
            or not self._wake.wait(timeout if rest is None else min(timeout, rest))
            and rest is None
        ):
            return False
        return self._step()

    @property
    def sequences(self) -> Sequences:
        """The low-level face, for who owns the loop. Raises NotSupported for an engine with a thread."""
        if self._thread is not None:
            raise NotSupported("this engine steps by itself; load it with thread=False to own the loop")
        return self._sequences

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

    def call(self, function: Callable[[], Any], timeout: float | None = 30.0) -> Any:
        """Run ``function`` between two steps and return its result (raise its error)."""
        self._check_open()
        self._refuse_reentry()
        asked = Future[Any]()
        self._post(Command("call", _NOBODY, -1, (asked, function)))
        if self._thread is None:
            self._step()
        if not self.alive:
            self._abandon()
        try:
            return asked.result(timeout)
        except CancelledError:
            raise EngineClosed("the engine is closed") from None
        except TimeoutError:
            if asked.done():
                raise
            asked.cancel()
            raise EngineClosed("the engine did not answer") from None

    def flush(self) -> None:
        """Return when every command given so far has been carried out."""
        self.call(lambda: None)

    # ---- words and numbers

    @property
    def info(self) -> ModelInfo:
        return self.model.info(self.n_ctx, self._device)

    @property
    def setup(self) -> EngineSetup:
        """How steps are computed: it follows from the options and this machine, and from nothing else."""
        return setup_of(self.options, self._context)

    @property
    def max_branches(self) -> int:
        """Live branches at once; more than that in one request is refused."""
        return self.options.max_branches

    @property
    def bos(self) -> int | None:
        return self.model.bos

    @property
    def add_bos(self) -> bool:
        return self.model.add_bos

    @property
    def eos(self) -> int | None:
        return self.model.eos

    @property
    def eog(self) -> frozenset[int]:
        return self.model.eog

    @property
    def fim(self) -> tuple[int, int, int] | None:
        """Ids of the fill-in-the-middle tokens (prefix, suffix, middle), if the model has them."""
        return self.model.fim

    @property
    def fim_files(self) -> tuple[int | None, int | None]:
        """Ids of the tokens before a collection of files, and before each of them, if the model has them."""
        return self.model.fim_files

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
        self.model.check_ids(ids)
        return [self.model.pieces.bytes[token] for token in ids]

    def token_bytes(self, token: int) -> bytes:
        return self.model.token_bytes(token)

    def token(self, text: str) -> int | None:
        """Id of the single token ``text``, special ones included, or None."""
        return self.model.token(text)

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
        """Messages as one prompt, by the model's own template, or ChatML if it has none.

        Raises InvalidRequest for messages or templates that do not fit together.
        """
        from .chat import render  # brings Jinja along, which only conversations need

        model = self.model
        return render(
            template or model.chat_template,
            messages,
            add_generation_prompt=add_generation_prompt,
            continue_final_message=continue_final_message,
            tools=tools,
            bos=model.special_text(model.bos),
            eos=model.special_text(model.eos),
            **kwargs,
        )

    def create_chat_completion(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> Generation:
        """Submit a conversation; the reply is the text of its branches.

        ``settings`` are fields of :class:`Request` other than the prompt. Raises InvalidRequest.
        """
        from .chat import with_stop_strings

        request = Request(self.apply_template(messages), parse_special=True, **settings)
        stop = with_stop_strings(request.stop, self.model.chat_template)
        return self.submit(replace(request, stop=stop))

    # ---- other uses of the model

    def embed(
        self, texts: Sequence[str | Sequence[int]], pooling: Pooling | None = None, normalize: int = 2
    ) -> list[Embedding]:
        """Vectors of texts, computed beside whatever is written. Waits for them.

        ``pooling`` says how the vectors of a text's tokens become one; None leaves it to the model.
        ``normalize`` counts as llama.cpp does: 2 is length 1, -1 as they are. Raises InvalidRequest,
        ContextOverflow for a text that is too long, or EngineClosed.
        """
        return self.embedder.embed(texts, pooling, normalize).result()

    def rank(self, query: str, documents: Sequence[str]) -> list[Score]:
        """How well each document answers ``query``. Waits for it.

        Raises NotSupported for a model without a head for it, and the errors of :meth:`embed`.
        """
        return self.embedder.rank(query, documents).result()

    # ---- the cache

    def stand_back(self) -> None:
        """Let what is written ahead rest for a moment: what a key that was pressed does needs the cores."""
        self._scheduler.stand_back()

    def pin(self, name: str, ids: Sequence[int], salt: str = "", common: Sequence[str] = ()) -> None:
        """Keep the prefix ``ids`` in the cache rather than others; a second pin of a name moves it.

        ``salt`` and ``common`` are those of the requests that it is for; see :class:`Request`.
        """
        self.model.check_ids(ids)
        pinned = tuple(ids), self._salted(ids, salt, common)
        self.call(lambda: self._cache.pins.__setitem__(name, pinned))

    def unpin(self, name: str) -> None:
        self.call(lambda: self._cache.pins.pop(name, None))

    def resident(self, ids: Sequence[int], salt: str = "", common: Sequence[str] = ()) -> int:
        """How many tokens of ``ids`` need not be evaluated now: they are in cells, in memory or on disk."""
        namespace = self._salted(ids, salt, common)
        return int(self.call(lambda: self._cache.held(ids, None, namespace)))

    def save_session(
        self, path: str | os.PathLike[str], ids: Sequence[int], salt: str = "", common: Sequence[str] = ()
    ) -> tuple[int, int]:
        """Write ``ids`` to a file, with the state of those that the cache holds; tokens and bytes written.

        ``salt`` and ``common`` are those of the requests that evaluated them. The file is bound to neither.
        Raises OSError, or InvalidRequest when nothing is held of them.
        """
        self.model.check_ids(ids)
        namespace = self._salted(ids, salt, common)
        held, parts = self.call(lambda: self._cache.states_of(ids, namespace), timeout=None)
        if not parts:
            raise InvalidRequest("session", "nothing of this text is in the cache")
        # A branch's last token has been drawn but not evaluated: it has no state, and is text all the same.
        path_ids = [*held, *ids[len(held) :]]
        return len(ids), write_session(Path(path), self._session_key, path_ids, parts, len(ids))

    def load_session(
        self, path: str | os.PathLike[str], salt: str = "", common: Sequence[str] = ()
    ) -> list[int]:
        """Take back what :meth:`save_session` wrote; its token ids. Those with a state are not evaluated.

        ``salt`` and ``common`` are those of the requests that it is for.
        Raises OSError, or InvalidRequest for a file that is damaged or another model's.
        """
        try:
            ids, parts, wanted = read_session(Path(path), self._session_key)
        except ValueError as error:
            raise InvalidRequest("session", f"{os.fspath(path)} is {error}") from error
        namespace = self._salted(ids, salt, common)
        self.call(lambda: self._cache.storage.adopt(ids, parts, namespace))
        return ids[:wanted]

    def lacks(self, name: str) -> str:
        """Why there is no chat template; what else this model cannot do is said when it is asked for."""
        missing = name == "chat_template" and self.model.chat_template is None
        return "the model's file has no chat template" if missing else ""

    def stats(self) -> EngineStats:
        """The counters now. Read without waiting for the engine, so a step may be half counted."""
        scheduler, cache = self._scheduler, self._cache
        traffic = cache.storage.traffic
        counters, queue = scheduler.counters, scheduler.queue
        requests = list(queue.requests)
        return EngineStats(
            prompt_tokens=queue.prompt_tokens,
            reused_tokens=queue.reused_tokens,
            prompt_rows=counters.prompt_rows,
            branch_rows=counters.branch_rows,
            generated_tokens=scheduler.loop.generated,
            decodes=counters.decodes,
            prompt_seconds=counters.prompt_seconds,
            decode_seconds=counters.decode_seconds,
            used_cells=cache.used_cells,
            total_cells=self._context.cells,
            used_sequences=cache.used_sequences,
            total_sequences=self._context.sequences,
            logits_rows=cache.tree.stored_rows,
            host_bytes=cache.tree.stored_bytes,
            disk_bytes=0 if cache.storage.disk is None else cache.storage.disk.bytes,
            saved_tokens=traffic.saved_tokens,
            restored_tokens=traffic.restored_tokens,
            damaged_states=traffic.damaged,
            evaluated_again=dict(traffic.evaluated_again),
            live_branches=len(scheduler.queue.running),
            waiting_requests=sum(1 for r in requests if not r.running),
            running_requests=sum(1 for r in requests if r.running),
        )

    # ---- inside

    @cached_property
    def _state_key(self) -> str:
        """Names the states that this engine makes."""
        options = self.options
        kind = (options.cache_type_k, options.cache_type_v, flash_attention(options), *key_of(options))
        return state_key(self.model.path, *kind)

    @property
    def _session_key(self) -> str:
        return self._state_key + self.adapters.names(SHARED)

    def _on_screen(self) -> Iterator[tuple[Sequence[int], Namespace]]:
        """Paths that a writer's face still knows, the newest first."""
        with self._known:
            known = [g for g in self._generations if g.request.priority is Priority.FOREGROUND]
        for generation in sorted(known, key=lambda g: -g.number):
            request = generation.engine_state
            if isinstance(request, ActiveRequest):
                yield from ((active.path, active.namespace) for active in request.branches)

    def _check_open(self) -> None:
        if self._dead is not None:
            raise EngineClosed(f"the engine has failed: {self._dead}")
        if self._closing:
            raise EngineClosed("the engine was closed")

    def _refuse_reentry(self) -> None:
        if self._stepping():
            raise EngineError("the engine cannot be asked to step, or to wait for one, by its own callbacks")

    def _stepping(self) -> bool:
        """Whether the caller is called from within a step."""
        return self._stepper == threading.get_ident()

    def _post(self, command: Command) -> None:
        generation = command.generation
        if generation is not _NOBODY:
            check_command(command, self.model, self.max_branches)
            command = prepared(command, self.model)
            if not self.alive:
                generation.abandon(EngineClosed("the engine is closed"))
                return
        self._scheduler.inbox.append(command)
        if command.verb in INTERRUPTING:
            self._scheduler.interrupt(generation)
        elif generation is not _NOBODY:
            self._scheduler.make_haste(command)
        self._wake.set()

    def _start(self) -> None:
        if sys.getswitchinterval() > SWITCH_INTERVAL:
            sys.setswitchinterval(SWITCH_INTERVAL)
        self._scheduler.overlaps = uses_gpu(self.options)
        self._thread = threading.Thread(target=self._loop, name="srbwriter-engine", daemon=True)
        self._thread.start()
        close_at_exit(self)

    def _loop(self) -> None:
        if self.options.nice and sys.platform == "linux":  # elsewhere it is one number for the whole process
            thread = threading.get_native_id()  # llama.cpp's threads are made by this one and follow it
            os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, 0) + self.options.nice)
        while not self._closing:
            self._wake.clear()
            if not self._step() and not self._closing:
                self._wake.wait(self._scheduler.rest())
        log.debug("the engine thread ends")

    def _step(self) -> bool:
        """One step. A failure ends the running requests, not the engine, unless it keeps failing."""
        with self._owner:
            if not self.alive:
                return False
            self._stepper = threading.get_ident()
            try:
                busy = self._scheduler.step()
                self._failures = 0
            except Exception as error:
                self._recover(error)
                busy = True
            finally:
                self._stepper = 0
            if self._closing:
                self._release()
            return busy

    def _recover(self, error: Exception) -> None:
        log.error("an engine step failed", exc_info=error)
        self._failures += 1
        shown = error if isinstance(error, EngineError) else NativeError("engine step", repr(error))
        try:
            self._scheduler.fail_all(shown)
        except Exception as second:
            log.exception("the engine could not recover")
            self._failures = 3
            error = second
        if self._failures >= 3:
            self._dead = error
            self._abandon()

    def _abandon(self) -> None:
        """Tell everyone who waits that nothing will come."""
        try:
            self._check_open()
        except EngineClosed as error:
            for generation in list(self._generations):
                generation.abandon(error)
        for command in list(self._scheduler.inbox):
            if command.verb == "call":
                command.args[0].cancel()

    def _release(self) -> None:
        """Free what is native; only for whoever holds the right to step."""
        self._abandon()
        for generation in list(self._generations):
            generation.engine_state.close()
        if self._cache.storage.disk is not None:
            self._cache.storage.disk.close()
        self._scheduler.grammars.close()
        if self._scheduler.sampling_threads is not None:
            self._scheduler.sampling_threads.close()
        if self._scheduler.backend_sampling is not None:
            self._scheduler.backend_sampling.clear()
        self._sequences.close()
        self._scheduler.strict.reset()
        self._context.close()
        self.model.close()


_NOBODY: Any = None  # commands that concern no request
