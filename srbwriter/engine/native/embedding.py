"""A llama_context whose rows are vectors instead of probabilities. Knows rows, no texts.

Every row of such a context is an output, so its memory is bounded by the rows of one decode.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..types import EngineOptions, ModelError, NativeError
from .batch import Batch
from .context import OK, context_params
from .library import library

_NONE = 0
"""enum llama_pooling_type: a vector for each row."""


class EmbeddingContext:
    """Evaluates one text of up to ``cells`` tokens at a time, ``rows`` of them in a decode.

    Only its owner's thread may call it. Raises ModelError.
    """

    def __init__(self, model: int, cells: int, rows: int, options: EngineOptions, path: str) -> None:
        lib = self._lib = library()
        self.cells = cells
        params = context_params(options)
        params.n_ctx, params.n_seq_max, params.n_batch, params.n_ubatch = cells, 1, rows, rows
        params.embeddings, params.pooling_type = True, _NONE
        pointer = lib.llama_init_from_model(model, params)
        if not pointer:
            raise ModelError(path, f"no room for embeddings of {cells} tokens", "lower --ctx-size")
        self.pointer = int(pointer)
        self._memory = lib.llama_get_memory(self.pointer)
        self._width = int(lib.llama_model_n_embd_out(model))
        self._batch = Batch(rows, (0,))

    def evaluate(
        self, tokens: list[int], threads: int, wanted: Callable[[], bool]
    ) -> NDArray[np.float32] | None:
        """Return the vector of each token of a text; None once it is not ``wanted``. Raises NativeError."""
        lib, found = self._lib, list[NDArray[np.float32]]()
        lib.llama_set_n_threads(self.pointer, threads, threads)
        lib.llama_memory_clear(self._memory, True)
        for start in range(0, len(tokens), self._batch.capacity):
            if not wanted():
                return None
            piece = tokens[start : start + self._batch.capacity]
            self._batch.clear()
            self._batch.add_run(piece, start, 0, True)
            code = lib.llama_decode(self.pointer, self._batch.take())
            if code != OK:
                raise NativeError("llama_decode", code)
            lib.llama_synchronize(self.pointer)
            first = lib.llama_get_embeddings_ith(self.pointer, 0)
            if not first:
                raise NativeError("llama_get_embeddings_ith", 0)
            found.append(np.ctypeslib.as_array(first, (len(piece), self._width)).copy())
        return np.concatenate(found)

    def close(self) -> None:
        self._lib.llama_free(self.pointer)
