"""LoRA adapters of a context. Knows pointers and numbers, no files but to load them."""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..model_files import check_file
from ..types import ModelError, NativeError
from .library import library


def load_adapter(model: int, path: Path) -> int:
    """Load an adapter for ``model``, which frees it in its own time. Raises ModelError."""
    check_file(path)
    pointer = library().llama_adapter_lora_init(model, os.fsencode(path))
    if not pointer:
        raise ModelError(
            str(path),
            "llama.cpp could not load this LoRA adapter; the log says why",
            "give the adapter that was made for this model, or download it again",
        )
    return C.cast(pointer, C.c_void_p).value or 0


def set_adapters(context: int, adapters: Sequence[tuple[int, float]]) -> None:
    """Decode with these (pointer, scale) from now on, and no others. Must not run beside a decode.

    What the cache holds was evaluated with those before, and means something else now.
    """
    pointers: Any = (C.c_void_p * len(adapters))(*(pointer for pointer, _ in adapters))
    scales = (C.c_float * len(adapters))(*(scale for _, scale in adapters))
    lib = library()
    kind: Any = lib.llama_set_adapters_lora.argtypes[1]
    code = lib.llama_set_adapters_lora(context, C.cast(pointers, kind), len(adapters), scales)
    if code:
        raise NativeError("llama_set_adapters_lora", code)
