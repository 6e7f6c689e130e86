"""Vectors of texts, on a context and a thread of their own.

The context is made for the first text, so that it costs nothing before; no step of the engine waits for it.
Knows the model and its tokens; knows no branches.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future, InvalidStateError
from typing import Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from . import limits
from .adapters import adapt_context
from .cores import count_cores
from .ending import close_at_exit
from .model import Model
from .native.embedding import EmbeddingContext
from .types import (
    ContextOverflow,
    EngineClosed,
    EngineError,
    EngineOptions,
    InvalidRequest,
    NotANumber,
)

log = logging.getLogger(__name__)

Pooling = Literal["none", "mean", "cls", "last"]
Vector: TypeAlias = "NDArray[np.float32]"

_POOLED = ("mean", "cls", "last")
_NAMES: tuple[str, ...] = ("none", "mean", "cls", "last", "rank")  # enum llama_pooling_type
_LEAST_CELLS = 512
_OUTPUT_BYTES = 64 << 20  # of the probabilities that llama.cpp computes beside the vectors of one decode
_MOST_ROWS = 512
_WHOLE = 2048  # tokens of a text that has to be computed in one piece
WAITING = 64  # requests; more are refused


class Embedding(NamedTuple):
    """``values`` is one vector, or one for each token where nothing was pooled; ``tokens`` were evaluated."""

    values: Vector
    tokens: int


class _Job:
    """Texts of one request; ``result`` turns (vectors, token count) of a text into the response item."""

    __slots__ = ("done", "found", "result", "texts")

    def __init__(self, texts: Sequence[list[int]], result: Callable[[Vector, int], Any]) -> None:
        self.texts, self.result = texts, result
        self.found: list[Any] = []
        self.done = Future[list[Any]]()

    def finish(self, result: list[Any] | Exception) -> None:
        """Give the caller the result, or the error, unless it has cancelled."""
        try:
            if isinstance(result, Exception):
                self.done.set_exception(result)
            else:
                self.done.set_result(result)
        except InvalidStateError:
            pass
        except BaseException as error:  # in a callback of the future; the result is set
            log.warning("a function that waited for vectors failed: %r", error)


class Embedder:
    """Computes the embeddings of one engine, on a thread of its own. Any thread may call the methods.

    ``busy`` says whether the engine writes meanwhile: it keeps its cores then.
    """

    def __init__(self, model: Model, options: EngineOptions, window: int, busy: Callable[[], bool]) -> None:
        self._model, self._options, self._window, self._busy = model, options, window, busy
        self._threads = options.threads_batch or options.threads or count_cores()
        self._jobs: deque[_Job] = deque()
        self._lock = threading.Lock()
        self._under_way: set[_Job] = set()
        self._thread: threading.Thread | None = None
        self._context: EmbeddingContext | None = None
        self._closed = False

    # ---- what callers ask for

    @property
    def working(self) -> bool:
        """Whether anything is under way."""
        return bool(self._jobs or self._under_way)

    @property
    def pooling(self) -> Pooling:
        """The model's own pooling; the mean where its file names none."""
        own = self._options.pooling or own_pooling(self._model)
        return cast("Pooling", own) if own in _POOLED or self._options.pooling == "none" else "mean"

    @property
    def longest(self) -> int:
        """Tokens that one text may have."""
        return self._window if self._causal else min(self._window, _WHOLE)

    def embed(
        self, texts: Sequence[str | Sequence[int]], pooling: Pooling | None, normalize: int
    ) -> Future[list[Embedding]]:
        """Vectors of texts, or of token ids.

        Raises InvalidRequest, ContextOverflow for a text that is too long, and EngineClosed.
        """
        way = pooling or self.pooling
        if way not in get_args(Pooling):
            raise InvalidRequest("pooling", f"{way!r} is not one of {', '.join(get_args(Pooling))}")
        limits.check_range("embd_normalize", normalize, -1, 100)
        ids = self._read("input", texts)
        vectors = sum(map(len, ids)) if way == "none" else len(ids)
        if vectors * self._model.n_embd > limits.VALUES:
            raise InvalidRequest("input", f"{vectors} vectors are more than {limits.VALUES} numbers")

        def result(rows: Vector, tokens: int) -> Embedding:
            pooled = _pool(rows, way)
            return Embedding(pooled if way == "none" else normalized(pooled, normalize), tokens)

        return self._submit(_Job(ids, result))

    def close(self, timeout: float = 5.0) -> None:
        """Cancel the running work and free the context. May be called twice."""
        with self._lock:
            self._closed, thread = True, self._thread
        if thread is None:
            self._free()
            return
        if (context := self._context) is not None:
            context.abort()
        if thread is not threading.current_thread():
            thread.join(timeout)

    # ---- looking at texts

    def _read(self, field: str, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
        if not _is_list(texts) or not all(isinstance(text, str) or _is_list(text) for text in texts):
            raise InvalidRequest(field, "expected a list of texts, or of lists of token ids")
        if not texts:
            raise InvalidRequest(field, "there is none")
        self._check_texts(field, texts)
        ids: list[list[int]] = []
        for text in texts:
            if isinstance(text, str):
                ids.append(self._model.tokenize(text, add_bos=True, parse_special=True))
                end = self._model.eos  # some models were trained to gather everything there
                if self._model.add_eos and end is not None and ids[-1][-1:] != [end]:
                    ids[-1].append(end)
            else:
                ids.append(list(text))
                self._model.check_ids(ids[-1])
        self._check_lengths(field, ids)
        return ids

    def _check_texts(self, field: str, texts: Sequence[str | Sequence[int]]) -> None:
        if len(texts) > limits.TEXTS:
            raise InvalidRequest(field, f"{len(texts)} texts, {limits.TEXTS} are possible")
        limits.check_prompt(field, sum(len(text) for text in texts))

    def _check_lengths(self, field: str, ids: Iterable[list[int]]) -> None:
        for one in ids:
            if not one:
                raise InvalidRequest(field, "a text is empty")
            if len(one) > self.longest:
                raise ContextOverflow(len(one), self.longest)

    @property
    def _causal(self) -> bool:
        return self._model.metadata.get(f"{self._model.architecture}.attention.causal", "true") != "false"

    # ---- the thread

    def _submit(self, job: _Job) -> Future[list[Any]]:
        with self._lock:
            if self._closed:
                raise EngineClosed("the engine was closed")
            if len(self._under_way) > WAITING:
                raise EngineError(f"{WAITING} requests wait for embeddings; try again later")
            self._under_way.add(job)
            self._jobs.append(job)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="srbwriter-embed", daemon=True)
                self._thread.start()
                close_at_exit(self)
        return job.done

    def _loop(self) -> None:
        """Work until nothing is left, and end: OpenMP's team of this thread slows the engine's down.

        (See :func:`srbwriter.engine.native.spin.on_own_thread`.)
        """
        with self._model.in_use:  # which keeps its weights
            while True:
                with self._lock:
                    if self._closed:
                        break
                    if not self._jobs:
                        self._thread = None
                        break
                    job = self._jobs.popleft()
                if self._compute_some(job):
                    self._jobs.append(job)  # some texts of each request in turn
                else:
                    with self._lock:
                        self._under_way.discard(job)
            if self._thread is threading.current_thread():
                self._free()

    def _free(self) -> None:
        if self._context is not None:
            self._context.close()
            self._context = None
        for job in list(self._under_way):
            job.finish(EngineClosed("the engine was closed"))

    def _compute_some(self, job: _Job) -> bool:
        """Compute as many texts of a job as fit the context; return whether some are left."""
        if job.done.cancelled():
            return False
        try:
            context = self._context_for(job)
            group = _group(job.texts[len(job.found) :], context.cells, context.sequences)
            for ids, rows in zip(group, self._evaluate(context, group, job), strict=True):
                if not np.isfinite(rows).all():
                    raise NotANumber()
                job.found.append(job.result(rows, len(ids)))
        except Exception as error:  # the caller gets it
            job.finish(error)
            return False
        if len(job.found) < len(job.texts):
            return True
        job.finish(job.found)
        return False

    def _context_for(self, job: _Job) -> EmbeddingContext:
        """Return the context, which is large enough for the longest text of the job."""
        longest = max(map(len, job.texts))
        context = self._context
        if context is None or context.cells < longest:
            if context is not None:
                context.close()
                self._context = None
            cells = _LEAST_CELLS
            while cells < longest:
                cells *= 2
            model, options = self._model, self._options
            rows = cells  # of one decode: a whole text, where each token sees those after it
            if self._causal:
                rows = max(8, min(_MOST_ROWS, cells, _OUTPUT_BYTES // (4 * model.n_vocab)))
            context = self._context = EmbeddingContext(
                model.pointer, cells=cells, rows=rows, threads=self._threads,
                options=options, path=str(model.path),
            )  # fmt: skip
            adapt_context(context.pointer, model, options)
        return context

    def _evaluate(self, context: EmbeddingContext, group: Sequence[list[int]], job: _Job) -> list[Vector]:
        """Return the vectors of each token of some texts, which fit the context together."""
        found: list[list[Vector]] = [[] for _ in group]
        context.clear()
        for pieces in _split_batches(group, context.rows, whole=not self._causal):
            if self._closed or job.done.cancelled():
                raise EngineClosed("the engine was closed")
            context.set_threads(1 if self._busy() else self._threads)
            rows = [context.add(group[seq][start:end], start, seq) for seq, start, end in pieces]
            if not context.decode():
                raise EngineClosed("the engine was closed")
            for (seq, start, end), row in zip(pieces, rows, strict=True):
                found[seq].append(context.vectors(row, end - start).copy())
        return [np.concatenate(parts) for parts in found]


def own_pooling(model: Model) -> str:
    """Return the pooling that a model names, ``none`` where it names none, as in llama.cpp."""
    kind = model.metadata.get(f"{model.architecture}.pooling_type", "0")
    return _NAMES[int(kind)] if kind.isdecimal() and int(kind) < len(_NAMES) else "none"


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping | Set)


def _group(texts: Sequence[list[int]], cells: int, most: int) -> list[list[int]]:
    """Return the first of ``texts``, as many as the context holds at a time, at least one."""
    group: list[list[int]] = []
    held = 0
    for text in texts[:most]:
        held += len(text)
        if group and held > cells:
            break
        group.append(text)
    return group


def _split_batches(
    group: Sequence[list[int]], rows: int, whole: bool
) -> Iterator[list[tuple[int, int, int]]]:
    """Yield the contents of each decode: (sequence, start, end), of at most ``rows`` tokens."""
    batch: list[tuple[int, int, int]] = []
    room = rows
    for seq, text in enumerate(group):
        if whole and batch and len(text) > room:
            yield batch
            batch, room = [], rows
        start = 0
        while start < len(text):
            if not room:
                yield batch
                batch, room = [], rows
            end = min(start + room, len(text))
            batch.append((seq, start, end))
            room -= end - start
            start = end
    if batch:
        yield batch


def _pool(vectors: Vector, way: Pooling) -> Vector:
    match way:
        case "none":
            return vectors
        case "mean":
            return vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        case "cls":
            return vectors[0]
        case "last":
            return vectors[-1]


def normalized(vector: Vector, how: int) -> Vector:
    """``vector`` scaled as llama.cpp counts: -1 not at all, 0 to 16 bits, p to length 1 in the p-norm."""
    if how < 0:
        return vector
    exact = vector.astype(np.float64)  # the smallest numbers have no smaller ones in 32 bits
    most = float(np.abs(exact).max(initial=0.0))
    if most == 0.0:
        return vector
    length = most / 32760.0 if how == 0 else most * float((np.abs(exact / most) ** how).sum()) ** (1 / how)
    return (exact / length).astype(np.float32)
