"""The devices that llama.cpp computes on, and what it was built with.

Run as a program (``python -m srbwriter.engine.native.devices``) it prints all of it as JSON, so that a driver
that hangs, or a build that this processor cannot run, ends that program only.
"""

from __future__ import annotations

import ctypes as C
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Literal

from .library import L, library

Kind = Literal["cpu", "gpu", "igpu", "accelerator", "meta"]
_KINDS: tuple[Kind, ...] = ("cpu", "gpu", "igpu", "accelerator", "meta")  # enum ggml_backend_dev_type


@dataclass(frozen=True, slots=True)
class Device:
    """A device of llama.cpp's; sizes in bytes, free as it was when this was asked."""

    name: str  # as llama.cpp numbers it: CUDA0
    description: str  # the product: NVIDIA GeForce RTX 4090
    kind: Kind
    free: int
    total: int

    @property
    def shared(self) -> bool:
        """Whether its memory is the machine's own."""
        return self.kind == "igpu" or self.name.startswith(("Metal", "MTL"))


@dataclass(frozen=True, slots=True)
class Build:
    """What llama.cpp was built with."""

    binding: str  # version of llama-cpp-python
    ggml: str
    backends: tuple[str, ...]
    features: str  # as llama.cpp prints them: "CPU : AVX2 = 1 | FMA = 1 | …"


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


def gpus(devices: list[Device]) -> list[Device]:
    """Return those that layers are put on: GPUs of their own, or else one in the processor."""
    own = [device for device in devices if device.kind == "gpu"]
    return own or [device for device in devices if device.kind == "igpu"][:1]


def read_build() -> Build:
    """Return what llama.cpp says of itself."""
    return Build(
        binding=version("llama-cpp-python"),
        ggml=" ".join(filter(None, (_ggml("ggml_version"), _ggml("ggml_commit")))),
        backends=tuple(_backends()),
        features=L.llama_print_system_info().decode("utf-8", "replace").strip(" |"),
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


def _main() -> None:
    from .amx import weights_may_be_repacked

    print(
        json.dumps(
            {
                "build": asdict(read_build()),
                "devices": [asdict(device) for device in read_devices()],
                "amx_broken": not weights_may_be_repacked(),
            }
        )
    )


if __name__ == "__main__":
    _main()
