"""LoRA adapters and control vectors, loaded with a model and used for everything that it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from srbwriter.paths import expanded

from .disk import state_key
from .model_files import check_adapter, read_directions
from .native.adapters import load_adapter, set_adapters, set_control_vector
from .parameters import is_number
from .types import EngineOptions, InvalidRequest, ModelError

if TYPE_CHECKING:
    from .model import Model

MOST_SCALE = 1000.0

ControlVector: TypeAlias = "tuple[NDArray[np.float32], int, int]"
"""A row for each layer from the first on, and the numbers of the first and the last that it acts on."""


def control_vector(options: EngineOptions, model: Model) -> ControlVector | None:
    """Return the sum of the scaled control vectors; None without files. Raises ModelError, InvalidRequest."""
    width, layers = model.n_embd, model.n_layer
    first, last = options.control_vector_layers or (1, layers)
    if not 1 <= first <= last <= layers:
        raise InvalidRequest(
            "control_vector_layers", f"{first} to {last} are not layers of this model, which has {layers}"
        )
    if not options.control_vectors:
        return None
    total = np.zeros((max(layers, 1), width), np.float32)
    for name, scale in options.control_vectors:
        path = expanded(name)
        for layer, tensor in read_directions(path):
            if len(tensor.shape) != 1 or tensor.size != width or not 1 <= layer < max(layers, 2):
                raise ModelError(
                    str(path),
                    f"{tensor.name} of {tensor.size} numbers does not fit {layers} layers of {width}",
                    "give the control vector that was made for this model",
                )
            numbers = np.fromfile(path, "<f4", tensor.size, offset=tensor.offset)
            if numbers.size != tensor.size:
                raise ModelError(str(path), "this control vector is cut short", "download it again")
            total[layer - 1] += np.float32(scale) * numbers
    if not np.isfinite(total).all():
        path = options.control_vectors[0][0]
        raise ModelError(path, "the control vector is no number somewhere", "make it again")
    return total, first, last


def load_adapters(model: Model, options: EngineOptions) -> None:
    """Load the LoRA adapters of ``options`` for a model.

    Raises ModelError for a file that cannot be used, InvalidRequest for a scale that cannot be.
    """
    for name, scale in options.lora:
        path = expanded(name)
        if not is_number(scale) or abs(scale) > MOST_SCALE:
            raise InvalidRequest(
                "lora", f"the scale of {path} is not in -{MOST_SCALE:g} … {MOST_SCALE:g}: {scale!r}"
            )
        check_adapter(path, model.architecture)
        model.adapters.append((load_adapter(model.pointer, path), scale))


def adapt_context(context: int, model: Model, options: EngineOptions) -> None:
    """Let a context compute with the adapters of its model and the control vectors of ``options``."""
    set_adapters(context, model.adapters)
    vector = control_vector(options, model)
    if vector is not None:
        set_control_vector(context, *vector)


def key_of(options: EngineOptions) -> tuple[str, ...]:
    """Names what a context's values depend on beside the model, for caches that outlive the program."""
    adapters, vectors = (
        [(state_key(expanded(name)), scale) for name, scale in files]
        for files in (options.lora, options.control_vectors)
    )
    return (repr((adapters, vectors, options.control_vector_layers)),) if adapters or vectors else ()
