"""Reading the devices that llama.cpp computes on, and what it was built with."""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from ..devices import Build, Device, Kind
from .library import L, library

_KINDS: tuple[Kind, ...] = ("cpu", "gpu", "igpu", "accelerator", "meta")  # enum ggml_backend_dev_type


def read_devices() -> list[Device]:
    """Ask llama.cpp for its devices and their free memory. Takes a moment where a GPU has to be woken."""
    get = _bind("ggml_backend_dev_get", C.c_void_p, C.c_size_t)
    name, description = (
        _bind(f"ggml_backend_dev_{what}", C.c_char_p, C.c_void_p) for what in ("name", "description")
    )
    kind = _bind("ggml_backend_dev_type", C.c_int, C.c_void_p)
    memory = _bind("ggml_backend_dev_memory", None, C.c_void_p, C.c_void_p, C.c_void_p)
    found: list[Device] = []
    for index in range(_bind("ggml_backend_dev_count", C.c_size_t)()):
        device, free, total = get(index), C.c_size_t(0), C.c_size_t(0)
        memory(device, C.byref(free), C.byref(total))
        number = int(kind(device))
        found.append(
            Device(
                _text(name(device)), _text(description(device)),
                _KINDS[number] if 0 <= number < len(_KINDS) else "accelerator", free.value, total.value,
            )
        )  # fmt: skip
    return found


def read_build() -> Build:
    """Return what llama.cpp says of itself."""
    return Build(
        binding=version("llama-cpp-python"),
        ggml=" ".join(filter(None, (_ggml("ggml_version"), _ggml("ggml_commit")))),
        backends=tuple(_backends()),
        features=_text(L.llama_print_system_info()),
    )


def _backends() -> Iterator[str]:
    get = _bind("ggml_backend_reg_get", C.c_void_p, C.c_size_t)
    name = _bind("ggml_backend_reg_name", C.c_char_p, C.c_void_p)
    for index in range(_bind("ggml_backend_reg_count", C.c_size_t)()):
        yield _text(name(get(index)))


def _ggml(function: str) -> str:
    try:
        return _text(_bind(function, C.c_char_p)())
    except AttributeError:
        return ""


def _bind(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of ggml's, which llama_cpp has no binding for. Raises AttributeError."""
    library()
    native: Any = L._lib
    bound = native[name]
    bound.restype, bound.argtypes = result, arguments
    return bound


def _text(value: bytes | None) -> str:
    return (value or b"").decode("utf-8", "replace")
