"""A llama_context whose rows are vectors instead of probabilities. Knows rows and sequences, no texts.

Every row of such a context is an output, so its memory is bounded by the rows of one decode.
"""

from __future__ import annotations

import ctypes as C

import numpy as np
from numpy.typing import NDArray

from ..types import EngineOptions, ModelError, NativeError
from .batch import Batch
from .context import ABORTED, OK, context_params, recurrent
from .library import L, library

NONE = 0
"""enum llama_pooling_type: a vector for each row."""
_SEQUENCES = 8


class EmbeddingContext:
    """Evaluates up to ``sequences`` texts at once, each once. Only its owner's thread may call it.

    ``cells`` hold all of them together; a decode takes ``rows`` tokens. Raises ModelError.
    """

    def __init__(
        self, model: int, *, cells: int, rows: int, threads: int, options: EngineOptions,
        path: str,
    ) -> None:  # fmt: skip
        lib = self._lib = library()
        self.cells = cells
        self.sequences = 1 if any(recurrent(model)) else min(_SEQUENCES, rows)
        params = context_params(options)
        params.n_ctx, params.n_seq_max = cells, self.sequences
        params.n_batch = params.n_ubatch = self.rows = max(rows, self.sequences)
        params.n_threads = params.n_threads_batch = threads
        params.embeddings, params.pooling_type = True, NONE
        pointer = lib.llama_init_from_model(model, params)
        if not pointer:
            raise ModelError(path, f"no room for embeddings of {cells} tokens", "lower --ctx-size")
        self.pointer = int(pointer)
        self._memory = lib.llama_get_memory(self.pointer)
        self._width = int(lib.llama_model_n_embd_out(model))
        self._batch = Batch(self.rows, (0,), 1)
        self._flag = C.create_string_buffer(b"\0\0", 2)
        self._callback = L.ggml_abort_callback(lib.strlen)
        lib.llama_set_abort_callback(self.pointer, self._callback, C.cast(self._flag, C.c_void_p))

    def set_threads(self, threads: int) -> None:
        self._lib.llama_set_n_threads(self.pointer, threads, threads)

    def clear(self) -> None:
        self._lib.llama_memory_clear(self._memory, True)
        self._batch.clear()

    def add(self, tokens: list[int], position: int, seq: int) -> int:
        """Put a piece of a text into the batch; its first row."""
        return self._batch.add_run(tokens, position, seq, True) - len(tokens) + 1

    def decode(self) -> bool:
        """Run the batch; False when it was broken off. Raises NativeError."""
        code = self._lib.llama_decode(self.pointer, self._batch.take())
        self._batch.clear()
        if code == ABORTED:
            return False
        if code != OK:
            raise NativeError("llama_decode", code)
        self._lib.llama_synchronize(self.pointer)
        return True

    def vectors(self, row: int, count: int) -> NDArray[np.float32]:
        """Vectors of ``count`` rows of the decode, valid until the next."""
        first = self._lib.llama_get_embeddings_ith(self.pointer, row)
        if not first:
            raise NativeError("llama_get_embeddings_ith", row)
        return np.ctypeslib.as_array(first, (count, self._width))

    def abort(self) -> None:
        """Make the decode that runs now end early. Safe from any thread."""
        self._flag[0] = b"x"

    def close(self) -> None:
        if self.pointer:
            self._lib.llama_free(self.pointer)
            self.pointer = 0
