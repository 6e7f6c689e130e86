"""Devices that llama.cpp computes on, and what it was built with. Loads no native library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["cpu", "gpu", "igpu", "accelerator", "meta"]


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

    @property
    def product(self) -> str:
        """What a person calls it."""
        return self.description or self.name


@dataclass(frozen=True, slots=True)
class Build:
    """What llama.cpp was built with."""

    binding: str  # version of llama-cpp-python
    ggml: str
    backends: tuple[str, ...]
    features: str  # of the processor and others, as llama.cpp prints them: "CPU : AVX2 = 1 | FMA = 1 | …"


def gpus(devices: Sequence[Device]) -> list[Device]:
    """Return those that layers are put on: GPUs of their own, or else one in the processor."""
    own = [device for device in devices if device.kind == "gpu"]
    return own or [device for device in devices if device.kind == "igpu"][:1]


def device_words(devices: Sequence[Device], gpu_layers: int | None, layers: int) -> str:
    """Return where a model of so many layers runs: ``CPU``, or the GPUs and how many layers they hold.

    The output layer counts as one more, as in llama.cpp's log; ``gpu_layers`` is None or -1 for all of them.
    """
    found = gpus(devices)
    asked = layers + 1 if gpu_layers is None or gpu_layers < 0 else min(gpu_layers, layers + 1)
    if not found or not asked:
        return "CPU"
    return f"{' and '.join(device.product for device in found)}, {asked} of {layers + 1} layers"
