"""The library face: load a model, submit requests, read what they become.

One thread owns the native context (or the caller, with ``thread=False``); every public method
here may be called from any thread.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from srbwriter.paths import expanded

from .adapters import load_adapters
from .capabilities import Capabilities, Feature
from .commands import make_request
from .devices import gpus
from .disk import read_session, write_session
from .embedding import Embedding, Pooling
from .generation import Command, Generation
from .infill import NO_MARKS
from .kv_cache import check_cache
from .model import Model
from .native.context import Context
from .native.devices import read_devices
from .native.spin import on_own_thread
from .native.weights import Progress, refuse_unsafe_tensors
from .prompt import assemble
from .runner import Runner
from .sequences import Sequences
from .sizing import all_memory, open_context, uses_gpu, where_it_runs
from .tree import Namespace
from .types import (
    EngineClosed,
    EngineError,
    EngineOptions,
    EngineStats,
    InvalidRequest,
    ModelInfo,
    NotSupported,
    Request,
    for_each,
)
from .validate import check_options
from .window import fit

log = logging.getLogger(__name__)


class Engine:
    """A loaded model and the batch that runs on it. Make one with :meth:`load`.

    Attributes:
        n_ctx: tokens that the prompt and text of one branch may have together.
        max_branches: live branches at once; more than that in one request is refused.
        bos: the token that begins a text, if there is one; before every prompt if ``add_bos``.
        eos: the token that ends a text, if there is one; ``eog`` are all of these.
        fim: the fill-in-the-middle tokens (prefix, suffix, middle), if the model has them.
        fim_files: the tokens before a collection of files, and before each of them, if the model has them.
    """

    def __init__(self, model: Model, context: Context, options: EngineOptions, window: int) -> None:
        self.model, self.options, self.adapters = model, options, options.lora
        self.n_ctx, self.max_branches = window, options.max_branches
        self.bos, self.add_bos, self.eos, self.eog = model.bos, model.add_bos, model.eos, model.eog
        self.fim, self.fim_files = model.fim, model.fim_files
        self._seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "little")
        self._runner = Runner(model, context, options, window, self._seed)
        self._context, self._cache = context, self._runner.cache
        self._scheduler, self._generations = self._runner.scheduler, self._runner.generations
        self.embedder, self._sequences = self._runner.embedder, self._runner.sequences
        self._device = where_it_runs(options, model.n_layer)
        self._numbers = itertools.count(1)
        self._seeds = itertools.count()
        dropped = weakref.finalize(self, self._runner.drop)
        dropped.atexit = False  # the end of the program closes what still runs

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
            engine._runner.start()
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
        devices = gpus(read_devices() if uses_gpu(options) else ())
        of_gpus = sum(device.total for device in devices if not device.shared)
        check_cache(file, options, all_memory() + of_gpus)
        model = Model(file, options, on_progress)
        try:
            load_adapters(model, options)
            context, window = open_context(model, options)
        except EngineError:
            model.close()
            raise
        return cls(model, context, options, window)

    def close(self, timeout: float = 5.0) -> None:
        """End every request, notify readers, and free the model. May be called twice.

        An engine without references finishes its running requests and is closed then.
        """
        self._runner.close(timeout)

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
        self._runner.check_open()
        self._runner.checks.check_request(request)
        ids, healed = assemble(self.model, request)
        if healed.tokens:
            _ = self.model.piece_index  # made here, if this is the first
        fitted = fit(ids, request, self.n_ctx)
        generation = Generation(next(self._numbers), request, self._runner.post)
        generation.truncated = len(fitted) != len(ids)
        generation.prompt_ids = tuple(fitted)
        generation.healed, generation.healed_tokens = healed.text, healed.tokens
        asked = for_each(request.sampling, 1)[0].seed
        seed = asked if asked is not None else self._seed + 7919 * next(self._seeds)
        namespace = Namespace(0 if request.cache_prompt else generation.number, request.cache_salt)
        make_request(
            generation, fitted, healed.text.encode(), seed, self.model, self._context.cells, namespace
        )
        with self._runner.known:
            self._generations.add(generation)
        self._runner.post(Command("submit", generation))
        return generation

    def process(self, timeout: float | None = None) -> bool:
        """Do one step on the caller's thread; False when there was nothing to do for ``timeout`` seconds."""
        return self._runner.process(timeout)

    @property
    def sequences(self) -> Sequences:
        """Return the low-level interface for callers with their own loop; it holds the engine meanwhile."""
        if self._thread is not None:
            raise NotSupported("this engine steps by itself; load it with thread=False to own the loop")
        return self._sequences

    def call(self, function: Callable[[], Any], timeout: float | None = 30.0) -> Any:
        """Run ``function`` between two steps and return its result (raise its error)."""
        return self._runner.call(function, timeout)

    def flush(self) -> None:
        """Return when every command given so far has been carried out."""
        self.call(lambda: None)

    # ---- words and numbers

    @property
    def info(self) -> ModelInfo:
        return self.model.info(self.n_ctx, self._device)

    @property
    def alive(self) -> bool:
        return self._runner.alive

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
        from .chat import with_stop_strings

        request = Request(self.apply_template(messages), parse_special=True, **settings)
        stop = with_stop_strings(request.stop, self.model.chat_template)
        return self.submit(replace(request, stop=stop))

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

    def pin(self, name: str, ids: Sequence[int], salt: str = "") -> None:
        """Keep the prefix ``ids`` in the cache rather than others; a second pin of a name moves it.

        ``salt`` is that of the requests that it is for; see :class:`Request`.
        """
        self.model.check_ids(ids)
        pinned = tuple(ids), Namespace(salt=salt)
        self.call(lambda: self._cache.pins.__setitem__(name, pinned))

    def unpin(self, name: str) -> None:
        self.call(lambda: self._cache.pins.pop(name, None))

    def resident(self, ids: Sequence[int], salt: str = "") -> int:
        """How many tokens of ``ids`` need not be evaluated now: they are in cells, in memory or on disk."""
        self.model.check_ids(ids)
        namespace = Namespace(salt=salt)

        def count() -> int:
            self._cache.read_story(ids, namespace)
            return self._cache.count_held(ids, namespace)

        return int(self.call(count))

    def save_session(
        self, path: str | os.PathLike[str], ids: Sequence[int], salt: str = ""
    ) -> tuple[int, int]:
        """Write ``ids`` to a file, with the state of those that the cache holds; tokens and bytes written.

        ``salt`` is that of the requests that evaluated them. The file is not bound to it.
        Raises OSError, or InvalidRequest when nothing is held of them.
        """
        self.model.check_ids(ids)
        namespace = Namespace(salt=salt)
        states = self.call(lambda: self._cache.collect_states(ids, namespace), timeout=None)
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
        self.call(lambda: self._cache.add_states(ids, states, Namespace(salt=salt)))
        return ids

    def stats(self) -> EngineStats:
        """The counters now. Read without waiting for the engine, so a step may be half counted."""
        scheduler, cache = self._scheduler, self._cache
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
            disk_bytes=0 if cache.files is None else cache.files.bytes,
            saved_tokens=cache.saved_tokens,
            restored_tokens=cache.restored_tokens,
            damaged_states=cache.damaged,
            live_branches=len(scheduler.queue.running),
            waiting_requests=sum(1 for r in requests if not r.running),
            running_requests=sum(1 for r in requests if r.running),
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

    @property
    def _thread(self) -> threading.Thread | None:
        return self._runner.thread

    @property
    def _session_key(self) -> str:
        return self._runner.state_key
