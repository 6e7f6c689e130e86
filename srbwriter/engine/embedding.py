"""Vectors of texts, on a context of their own, whose rows are vectors instead of probabilities.

The context is made for the first text, so that it costs nothing before; no step of the engine waits for it.
Every row of it is an output, so its memory is bounded by the rows of one decode. Knows no branches.
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
from .native.batch import Batch
from .native.context import context_params, set_adapters
from .native.library import library
from .types import (
    ContextOverflow,
    EngineClosed,
    EngineOptions,
    InvalidRequest,
    ModelError,
    NativeError,
    NotANumber,
)

Pooling = Literal["mean", "cls", "last"]
Vector: TypeAlias = "NDArray[np.float32]"

_NAMES: Sequence[str] = ("none", "mean", "cls", "last", "rank")  # enum llama_pooling_type
_NO_POOLING = 0
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
        self._context = self._cells = 0  # llama_context *, and the tokens that it takes
        self._rows = max(8, min(_MOST_ROWS, _OUTPUT_BYTES // (4 * model.n_vocab)))  # of one decode
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
            self._free()
            self._turn.release()

    def _free(self) -> None:
        if self._context:
            library().llama_free(self._context)
        self._context = self._cells = 0

    def _read(self, texts: Sequence[str | Sequence[int]]) -> list[list[int]]:
        given = cast("Sequence[object]", texts)
        if isinstance(texts, str) or not all(isinstance(text, Sequence) for text in given):
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
        rows = self._evaluate(ids, lambda: not self._closed and not done.cancelled())
        if not np.isfinite(rows).all():
            raise NotANumber()
        pooled = {"mean": rows.mean(axis=0, dtype=np.float64), "cls": rows[0], "last": rows[-1]}[way]
        return Embedding(normalized(pooled.astype(np.float32), normalize), len(ids))

    def _evaluate(self, ids: list[int], wanted: Callable[[], bool]) -> NDArray[np.float32]:
        """Return the vector of each token of a text. Raises EngineClosed once ``wanted`` is false."""
        lib, model, found = library(), self._model, list[NDArray[np.float32]]()
        if self._cells < len(ids):
            self._free()
            cells = max(_LEAST_CELLS, 1 << (len(ids) - 1).bit_length())
            params = context_params(self._options)
            params.n_ctx, params.n_seq_max, params.n_batch, params.n_ubatch = cells, 1, self._rows, self._rows
            params.embeddings, params.pooling_type = True, _NO_POOLING
            self._context = int(lib.llama_init_from_model(model.pointer, params) or 0)
            if not self._context:
                problem = f"no room for embeddings of {cells} tokens"
                raise ModelError(str(model.path), problem, "lower --ctx-size")
            self._cells = cells
            set_adapters(self._context, model.adapters)
        threads, width = 1 if self._busy() else self._threads, int(lib.llama_model_n_embd_out(model.pointer))
        lib.llama_set_n_threads(self._context, threads, threads)
        lib.llama_memory_clear(lib.llama_get_memory(self._context), True)
        batch = Batch(self._rows, (0,))
        for start in range(0, len(ids), self._rows):
            if not wanted():
                raise EngineClosed("the engine was closed")
            piece = ids[start : start + self._rows]
            batch.clear()
            batch.add_run(piece, start, 0, True)
            if code := lib.llama_decode(self._context, batch.take()):
                raise NativeError("llama_decode", code)
            lib.llama_synchronize(self._context)
            first = lib.llama_get_embeddings_ith(self._context, 0)
            if not first:
                raise NativeError("llama_get_embeddings_ith", 0)
            found.append(np.ctypeslib.as_array(first, (len(piece), width)).copy())
        return np.concatenate(found)


def normalized(vector: Vector, how: int) -> Vector:
    """``vector`` scaled as llama.cpp counts: -1 not at all, 0 to 16 bits, p to length 1 in the p-norm."""
    exact = vector.astype(np.float64)  # the smallest numbers have no smaller ones in 32 bits
    length = np.linalg.norm(exact, how or np.inf) / (1.0 if how else 32760.0) if how >= 0 else 0.0
    return (exact / length).astype(np.float32) if length else vector
