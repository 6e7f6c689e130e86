"""Vectors of texts, on a context of their own.

The context is made for the first text, so that it costs nothing before; no step of the engine waits for it.
Knows the model and its tokens; knows no branches.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np
from numpy.typing import NDArray

from . import limits
from .cores import count_cores
from .model import Model
from .native.adapters import set_adapters
from .native.embedding import EmbeddingContext
from .types import ContextOverflow, EngineClosed, EngineOptions, InvalidRequest, NotANumber

Pooling = Literal["mean", "cls", "last"]
Vector: TypeAlias = "NDArray[np.float32]"

_NAMES: Sequence[str] = ("none", "mean", "cls", "last", "rank")  # enum llama_pooling_type
_LEAST_CELLS = 512
_OUTPUT_BYTES = 64 << 20  # of the probabilities that llama.cpp computes beside the vectors of one decode
_MOST_ROWS = 512


class Embedding(NamedTuple):
    """``values`` is the vector of a text, of which ``tokens`` were evaluated."""

    values: Vector
    tokens: int


class Embedder:
    """Computes the embeddings of one engine, each request on a thread of its own, one after the other.

    Any thread may call the methods. ``busy`` says whether the engine writes meanwhile, with the cores. A text
    has ``longest`` tokens at most. ``pooling`` is the model's own; the mean where its file names none.
    """

    def __init__(self, model: Model, options: EngineOptions, window: int, busy: Callable[[], bool]) -> None:
        self._model, self._options, self._busy, self.longest = model, options, busy, window
        self._threads = options.threads_batch or options.threads or count_cores()
        kind = model.metadata.get(f"{model.architecture}.pooling_type", "0")
        own = options.pooling or (_NAMES[int(kind)] if kind.isdecimal() and int(kind) < len(_NAMES) else "")
        self.pooling: Pooling = cast("Pooling", own if own in get_args(Pooling) else "mean")
        self._turn = threading.Lock()  # of the context
        self._context: EmbeddingContext | None = None
        self._closed = False

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

        def work() -> None:
            with suppress(InvalidStateError):  # it is cancelled
                try:
                    with self._model.in_use, self._turn:  # which keeps its weights
                        done.set_result([self._embed(each, way, normalize, done) for each in ids])
                except Exception as error:  # the caller gets it
                    done.set_exception(error)

        # It ends with the request: OpenMP's team of a thread slows the engine's down (see native.spin).
        threading.Thread(target=work, name="srbwriter-embed", daemon=True).start()
        return done

    def close(self, timeout: float = 5.0) -> None:
        """Cancel the running work and free the context. May be called twice."""
        self._closed = True
        if self._turn.acquire(timeout=timeout):
            if self._context is not None:
                self._context.close()
            self._context = None
            self._turn.release()

    def _read(self, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
        if isinstance(texts, str) or not all(isinstance(text, Sequence) for text in texts):
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

    def _embed(
        self, ids: list[int], way: Pooling, normalize: int, done: Future[list[Embedding]]
    ) -> Embedding:  # fmt: skip
        if self._context is None or self._context.cells < len(ids):
            if self._context is not None:
                self._context.close()
            model, cells = self._model, max(_LEAST_CELLS, 1 << (len(ids) - 1).bit_length())
            rows = max(8, min(_MOST_ROWS, _OUTPUT_BYTES // (4 * model.n_vocab)))
            self._context = EmbeddingContext(model.pointer, cells, rows, self._options, str(model.path))
            set_adapters(self._context.pointer, model.adapters)
        threads = 1 if self._busy() else self._threads
        rows = self._context.evaluate(ids, threads, lambda: not self._closed and not done.cancelled())
        if rows is None:
            raise EngineClosed("the engine was closed")
        if not np.isfinite(rows).all():
            raise NotANumber()
        pooled = {"mean": rows.mean(axis=0, dtype=np.float64), "cls": rows[0], "last": rows[-1]}[way]
        return Embedding(normalized(pooled.astype(np.float32), normalize), len(ids))


def normalized(vector: Vector, how: int) -> Vector:
    """``vector`` scaled as llama.cpp counts: -1 not at all, 0 to 16 bits, p to length 1 in the p-norm."""
    exact = vector.astype(np.float64)  # the smallest numbers have no smaller ones in 32 bits
    length = np.linalg.norm(exact, how or np.inf) / (1.0 if how else 32760.0) if how >= 0 else 0.0
    return (exact / length).astype(np.float32) if length else vector
