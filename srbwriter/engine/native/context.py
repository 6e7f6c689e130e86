"""One llama_context: decoding, sequences, logits. Knows rows and ids, not branches or requests.

Every rule that llama.cpp enforces by abort() is checked here before the call.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..types import MAX_SEQUENCES, EngineOptions, ModelError, NativeError
from .batch import Batch
from .library import L, library

# enum ggml_type, for the kinds a KV cache may have
CACHE_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20, "bf16": 30
}  # fmt: skip
_FLASH = {"auto": -1, "on": 1, "off": 0}  # enum llama_flash_attn_type

_PADDING = MAX_SEQUENCES
"""llama.cpp pads to it too, but only after it has cut n_batch down to n_ctx: it must not get below the
number of sequences, or a step of all branches would not fit a batch."""

OK, NO_SLOT, ABORTED = 0, 1, 2

FEW_BRANCHES = 2
"""Live branches, up to which a processor is left to llama.cpp's own choice of attention."""


class Context:
    """A context with one unified cache. Only its owner's thread may call it."""

    def __init__(
        self,
        model: int,
        *,
        cells: int,
        sequences: int,
        batch: int,
        ubatch: int,
        threads: int,
        threads_batch: int,
        options: EngineOptions,
        path: str,
    ) -> None:
        lib = library()
        self._lib = lib
        ids = 2 if slides(model) else 1  # of each sequence
        self.cuttable = not any(recurrent(model))
        scratch = 1 if self.cuttable else 0  # an id through which states of ranges are saved and restored
        self.sequences = min(sequences, MAX_SEQUENCES // ids - scratch)
        self._offsets = tuple(range(0, ids * self.sequences, self.sequences))
        self._scratch = ids * self.sequences
        batch = max(batch, ids * self.sequences + scratch, 1)
        params = context_params(options)
        params.n_ctx = -(-cells // _PADDING) * _PADDING
        params.n_seq_max = ids * self.sequences + scratch
        params.n_batch = batch
        params.n_ubatch = min(max(ubatch, 1), batch)
        params.n_outputs_max = params.n_seq_max
        params.n_threads = threads
        params.n_threads_batch = threads_batch
        pointer = lib.llama_init_from_model(model, params)
        if not pointer:
            raise ModelError(
                path,
                f"no room for a context of {cells} tokens, or the cache types do not fit together",
                "lower --ctx-size, use --cache-type-k/v f16, or offload fewer layers",
            )
        self.pointer = int(pointer)
        self.memory = lib.llama_get_memory(self.pointer)
        if not self.memory:
            lib.llama_free(self.pointer)
            raise ModelError(path, "this model has no decoder", "choose a model that generates text")
        self.cells = int(lib.llama_n_ctx(self.pointer))
        self.max_rows = int(lib.llama_n_batch(self.pointer))
        self.max_outputs = self.sequences
        self.n_vocab = int(lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model)))
        self.batch = Batch(self.max_rows, self._offsets)
        self._abort_flag = C.create_string_buffer(b"\0\0", 2)
        self.window = int(lib.llama_model_n_swa(model)) if ids > 1 else 0  # that sliding layers see

    # ---- decoding

    def decode(self, meanwhile: Callable[[], None] | None = None) -> int:
        """Run the batch: OK, NO_SLOT or ABORTED. Raises NativeError for anything else.

        On a GPU llama.cpp returns before the batch is computed. ``meanwhile`` is called then, and must not
        touch the batch, sequences or logits.
        """
        code = self._lib.llama_decode(self.pointer, self.batch.take())
        if code == OK:
            if meanwhile is not None:
                meanwhile()
            self._lib.llama_synchronize(self.pointer)
        elif code not in (NO_SLOT, ABORTED):
            raise NativeError("llama_decode", code)
        return int(code)

    def logits(self, row: int) -> NDArray[np.float32]:
        """Logits of a batch row, valid until the next decode. Copy what must last."""
        pointer = self._lib.llama_get_logits_ith(self.pointer, row)
        if not pointer:
            raise NativeError("llama_get_logits_ith", row)
        return np.ctypeslib.as_array(pointer, (self.n_vocab,))

    def set_threads(self, branches: int, prompt: int) -> None:
        """Threads of the decodes from now on: of those with one row, and of those with more."""
        self._lib.llama_set_n_threads(self.pointer, branches, prompt)

    # ---- sequences

    def copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None:
        """Let ``target`` share cells [start, end) of ``source``, all of them by default.

        Nothing is computed or copied. A memory that cannot be cut takes a whole sequence only, and
        some end the process over anything else.
        """
        self._check(source)
        self._check(target)
        if end > start or end < 0:
            for offset in self._offsets:
                self._lib.llama_memory_seq_cp(self.memory, source + offset, target + offset, start, end)

    def remove(self, seq: int, start: int = -1, end: int = -1) -> None:
        """Drop positions [start, end), all of them by default. Raises NativeError if refused."""
        self._check(seq)
        for offset in self._offsets:
            if not self._lib.llama_memory_seq_rm(self.memory, seq + offset, start, end):
                raise NativeError("llama_memory_seq_rm", f"sequence {seq}, {start} to {end}")

    def clear(self) -> None:
        self._lib.llama_memory_clear(self.memory, True)

    # ---- states

    def save_sequence(self, seq: int) -> NDArray[np.uint8]:
        """Return a copy of the state of ``seq``. Raises NativeError."""
        self._check(seq)
        return self._state_of(seq)

    def save_range(self, seq: int, start: int, end: int) -> NDArray[np.uint8]:
        """Return a copy of what ``seq`` holds of positions [start, end), in a memory that can be cut.

        Of a sliding layer llama.cpp saves what the last of these positions sees: a range that keeps between
        two multiples of ``window`` is saved whole. Raises NativeError.
        """
        self._check(seq)
        self._lib.llama_memory_seq_cp(self.memory, seq, self._scratch, start, end)
        try:
            return self._state_of(self._scratch)
        finally:
            self._lib.llama_memory_seq_rm(self.memory, self._scratch, -1, -1)

    def restore_sequence(self, data: NDArray[np.uint8], end: int, seq: int) -> bool:
        """Restore the saved state of a sequence of ``end`` tokens, for ``seq``.

        False when there is no room, or for other data.
        """
        self._check(seq)
        restored = self._set_state(data, end, seq)
        if not restored:
            self._lib.llama_memory_seq_rm(self.memory, seq, -1, -1)
        return restored

    def restore_range(
        self, data: NDArray[np.uint8], start: int, end: int, seq: int, first: int, last: int
    ) -> bool:
        """Restore a saved state of [start, end), for ``seq`` to hold positions [first, last) of it.

        False when there is no room, or for other data.
        """
        self._check(seq)
        lib, memory, scratch = self._lib, self.memory, self._scratch
        restored = self._set_state(data, end, scratch)
        restored = restored and lib.llama_memory_seq_pos_min(memory, scratch) == start
        for offset in self._offsets if restored else ():
            lib.llama_memory_seq_cp(memory, scratch, seq + offset, first, last)
        lib.llama_memory_seq_rm(memory, scratch, -1, -1)
        return restored

    def _set_state(self, data: NDArray[np.uint8], end: int, seq: int) -> bool:
        taken = self._lib.llama_state_seq_set_data(self.pointer, _bytes_of(data), data.size, seq)
        return taken == data.size and self._lib.llama_memory_seq_pos_max(self.memory, seq) == end - 1

    def compact(self) -> None:
        """Move every cell in use to the beginning of the memory. Raises NativeError; then all is lost."""
        size = self._lib.llama_state_get_size(self.pointer)
        data = np.empty(size, np.uint8)
        taken = self._lib.llama_state_get_data(self.pointer, _bytes_of(data), size)
        if not 0 < taken <= size:
            raise NativeError("llama_state_get_data", taken)
        put = self._lib.llama_state_set_data(self.pointer, _bytes_of(data), taken)
        if put != taken:
            raise NativeError("llama_state_set_data", put)

    def _state_of(self, seq: int) -> NDArray[np.uint8]:
        size = self._lib.llama_state_seq_get_size(self.pointer, seq)
        data = np.empty(size, np.uint8)
        taken = self._lib.llama_state_seq_get_data(self.pointer, _bytes_of(data), size, seq)
        if not 0 < taken <= size:
            raise NativeError("llama_state_seq_get_data", taken)
        return data[:taken]

    def _check(self, seq: int) -> None:
        if not 0 <= seq < self.sequences:
            raise NativeError("sequence id", seq)

    # ---- abort

    def enable_abort(self) -> None:
        """Poll a flag between graph nodes. The callback is libc's strlen on a two-byte buffer:
        0 while its first byte is 0, so that no Python code and no GIL is involved."""
        callback = L.ggml_abort_callback(self._lib.strlen)
        self._abort_callback = callback
        self._lib.llama_set_abort_callback(self.pointer, callback, C.cast(self._abort_flag, C.c_void_p))

    def abort(self) -> None:
        """Make the decode that runs now end early. Safe from any thread."""
        self._abort_flag[0] = b"x"

    def rearm(self) -> None:
        self._abort_flag[0] = b"\0"

    def close(self) -> None:
        if self.pointer:
            self._lib.llama_free(self.pointer)
            self.pointer = 0


def context_params(options: EngineOptions) -> Any:
    """What all contexts have in common."""
    params = L.llama_context_default_params()
    params.flash_attn_type = _FLASH[flash_attention(options)]
    params.type_k, params.type_v = CACHE_TYPES[options.cache_type_k], CACHE_TYPES[options.cache_type_v]
    params.kv_unified = True
    params.no_perf = True
    return params


def set_adapters(context: int, adapters: Sequence[tuple[int, float]]) -> None:
    """Decode with these LoRA adapters (pointer, scale) from now on. Must not run beside a decode.

    What the cache holds was evaluated with those before, and means something else now.
    """
    pointers: Any = (C.c_void_p * len(adapters))(*(pointer for pointer, _ in adapters))
    scales = (C.c_float * len(adapters))(*(scale for _, scale in adapters))
    lib = library()
    kind: Any = lib.llama_set_adapters_lora.argtypes[1]
    code = lib.llama_set_adapters_lora(context, C.cast(pointers, kind), len(adapters), scales)
    if code:
        raise NativeError("llama_set_adapters_lora", code)


def _bytes_of(data: NDArray[np.uint8]) -> Any:
    return data.ctypes.data_as(C.POINTER(C.c_uint8))


def has_gpu() -> bool:
    return bool(library().llama_supports_gpu_offload())


def flash_attention(options: EngineOptions) -> Literal["auto", "on", "off"]:
    """Return llama.cpp's flash attention setting; "auto" leaves it to llama.cpp.

    On a processor flash attention goes row by row below 64 queries, so that several branches over one prefix
    are 1.7 to 2.1 times slower with it. A quantised V cache needs it.
    """
    if options.flash_attn != "auto" or (has_gpu() and options.gpu_layers != 0):
        return options.flash_attn
    if options.cache_type_v not in ("f16", "f32", "bf16"):
        return "on"
    return "auto" if options.max_branches <= FEW_BRANCHES else "off"


def slides(model: int) -> bool:
    """Whether sequences need two ids each: layers of the model see the last tokens only.

    For new tokens llama.cpp takes such a layer's cells that lie outside the window of the one
    sequence that holds them, even while others are empty. That sequence then has a hole: going back
    to before it, or forking there, gives wrong logits and no error. A cell that two sequences hold
    is never taken, so every row belongs to its sequence and to that sequence's twin. A memory that
    cannot be cut is resumed at its end only, where such cells are not seen any more.
    """
    return library().llama_model_n_swa(model) > 0 and not any(recurrent(model))


def recurrent(model: int) -> tuple[bool, bool]:
    """(purely recurrent, hybrid): such a memory cannot drop the tail of a sequence."""
    lib: Any = library()
    return bool(lib.llama_model_is_recurrent(model)), bool(lib.llama_model_is_hybrid(model))
