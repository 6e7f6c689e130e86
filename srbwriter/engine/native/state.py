"""What a sequence holds in the cache, as bytes in host memory and back. Knows contexts, no files.

llama.cpp checks little of what it is given back: only bytes that :func:`read_state` made, in a context of the
same model and the same settings, may be written.
"""

from __future__ import annotations

import ctypes as C

import numpy as np
from numpy.typing import NDArray

from ..types import NativeError
from .context import Context
from .library import library

PARTIAL = 1
"""LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY: the sliding window or the recurrent state, without the rest."""


def read_state(context: Context, seq: int, flags: int = 0) -> NDArray[np.uint8]:
    """A copy of what ``seq`` holds. Raises NativeError."""
    lib = library()
    size = int(lib.llama_state_seq_get_size_ext(context.pointer, seq, flags))
    data = np.empty(size, np.uint8)
    written = int(lib.llama_state_seq_get_data_ext(context.pointer, _bytes(data), size, seq, flags))
    if written != size:
        raise NativeError("llama_state_seq_get_data_ext", f"{written} of {size} bytes")
    return data


def write_state(context: Context, seq: int, data: NDArray[np.uint8], flags: int = 0) -> bool:
    """Let ``seq`` hold in cells of its own what was read; False when there is no room for it."""
    lib = library()
    return bool(lib.llama_state_seq_set_data_ext(context.pointer, _bytes(data), data.size, seq, flags))


def _bytes(data: NDArray[np.uint8]) -> object:
    return data.ctypes.data_as(C.POINTER(C.c_uint8))
