"""Vectors of texts, on a context and a thread of their own.

The context is made for the first text, so that it costs nothing before; no step of the engine waits for it.
Knows the model and its tokens; knows no branches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from . import limits
from .adapters import adapt_context
from .cores import count_cores
from .ending import close_at_exit
from .model import Model
from .native.embedding import EmbeddingContext
from .types import ContextOverflow, EngineClosed, EngineError, EngineOptions, InvalidRequest, NotANumber

Pooling = Literal["mean", "cls", "last"]
Vector: TypeAlias = "NDArray[np.float32]"

_NAMES: Sequence[str] = ("none", "mean", "cls", "last", "rank")  # enum llama_pooling_type
_LEAST_CELLS = 512
_OUTPUT_BYTES = 64 << 20  # of the probabilities that llama.cpp computes beside the vectors of one decode
_MOST_ROWS = 512
_WHOLE = 2048  # tokens of a text that has to be computed in one piece
WAITING = 64  # requests; more are refused


class Embedding(NamedTuple):
    """``values`` is the vector of a text, of which ``tokens`` were evaluated."""

    values: Vector
    tokens: int


class Embedder:
    """Computes the embeddings of one engine, each request on a thread of its own, one after the other.

    Any thread may call the methods. ``busy`` says whether the engine writes meanwhile, with the cores.
    """

    def __init__(self, model: Model, options: EngineOptions, window: int, busy: Callable[[], bool]) -> None:
        self._model, self._options, self._busy = model, options, busy
        self._threads = options.threads_batch or options.threads or count_cores()
        self._causal = model.metadata.get(f"{model.architecture}.attention.causal", "true") != "false"
        self.longest = window if self._causal else min(window, _WHOLE)
        """Tokens that one text may have."""
        self._jobs: set[Future[list[Embedding]]] = set()
        self._turn = threading.Lock()  # of the context
        self._context: EmbeddingContext | None = None
        self._closed = False

    @property
    def working(self) -> bool:
        return bool(self._jobs)

    @property
    def pooling(self) -> Pooling:
        """The model's own pooling; the mean where its file names none."""
        own = self._options.pooling or own_pooling(self._model)
        return cast("Pooling", own) if own in get_args(Pooling) else "mean"

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
        ids, done = self._read(texts), Future[list[Embedding]]()
        if self._closed:
            raise EngineClosed("the engine was closed")
        if len(self._jobs) > WAITING:
            raise EngineError(f"{WAITING} requests wait for embeddings; try again later")
        self._jobs.add(done)
        close_at_exit(self)
        # It ends with the request: OpenMP's team of a thread slows the engine's down (see native.spin).
        work = threading.Thread(
            target=self._run, args=(ids, way, normalize, done), name="srbwriter-embed", daemon=True
        )
        work.start()
        return done

    def close(self, timeout: float = 5.0) -> None:
        """Cancel the running work and free the context. May be called twice."""
        self._closed = True
        if (context := self._context) is not None:
            context.abort()
        if self._turn.acquire(timeout=timeout):
            if self._context is not None:
                self._context.close()
                self._context = None
            self._turn.release()

    def _read(self, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
        if not _is_list(texts) or not all(isinstance(text, str) or _is_list(text) for text in texts):
            raise InvalidRequest("input", "expected a list of texts, or of lists of token ids")
        if not 0 < len(texts) <= limits.TEXTS:
            raise InvalidRequest("input", f"{len(texts)} texts, 1 to {limits.TEXTS} are possible")
        limits.check_prompt("input", sum(map(len, texts)))
        model, found = self._model, list[list[int]]()
        for text in texts:
            if isinstance(text, str):
                ids = model.tokenize(text, add_bos=True, parse_special=True)
                if model.add_eos and model.eos is not None and ids[-1:] != [model.eos]:
                    ids.append(model.eos)  # some models were trained to gather everything there
            else:
                ids = list(text)
                model.check_ids(ids)
            if not ids:
                raise InvalidRequest("input", "a text is empty")
            if len(ids) > self.longest:
                raise ContextOverflow(len(ids), self.longest)
            found.append(ids)
        return found

    def _run(
        self, texts: Sequence[list[int]], way: Pooling, normalize: int, done: Future[list[Embedding]]
    ) -> None:  # fmt: skip
        with suppress(InvalidStateError):  # it is cancelled
            try:
                with self._model.in_use, self._turn:  # which keeps its weights
                    found = [self._embed(ids, way, normalize, done) for ids in texts]
                done.set_result(found)
            except Exception as error:  # the caller gets it
                done.set_exception(error)
        self._jobs.discard(done)

    def _embed(
        self, ids: list[int], way: Pooling, normalize: int, done: Future[list[Embedding]]
    ) -> Embedding:  # fmt: skip
        closed = EngineClosed("the engine was closed")
        if self._closed or done.cancelled():
            raise closed
        rows = self._context_for(len(ids)).evaluate(ids, 1 if self._busy() else self._threads)
        if rows is None:
            raise closed
        if not np.isfinite(rows).all():
            raise NotANumber()
        pooled = {"mean": rows.mean(axis=0, dtype=np.float64), "cls": rows[0], "last": rows[-1]}[way]
        return Embedding(normalized(pooled.astype(np.float32), normalize), len(ids))

    def _context_for(self, tokens: int) -> EmbeddingContext:
        """Return the context, which is large enough for a text of so many tokens."""
        if self._context is None or self._context.cells < tokens:
            if self._context is not None:
                self._context.close()
                self._context = None
            model, cells = self._model, max(_LEAST_CELLS, 1 << (tokens - 1).bit_length())
            rows = cells  # of one decode: a whole text, where each token sees those after it
            if self._causal:
                rows = max(8, min(_MOST_ROWS, _OUTPUT_BYTES // (4 * model.n_vocab)))
            self._context = EmbeddingContext(model.pointer, cells, rows, self._options, str(model.path))
            adapt_context(self._context.pointer, model, self._options)
        return self._context


def own_pooling(model: Model) -> str:
    """Return the pooling that a model names, ``none`` where it names none, as in llama.cpp."""
    kind = model.metadata.get(f"{model.architecture}.pooling_type", "0")
    return _NAMES[int(kind)] if kind.isdecimal() and int(kind) < len(_NAMES) else "none"


def _is_list(value: object) -> bool:
    return isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping | Set)


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
