"""LoRA adapters, loaded with a model and used for everything that it computes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.paths import expanded

from .disk import state_key
from .model_files import check_adapter
from .native.adapters import load_adapter
from .parameters import is_number
from .types import EngineOptions, InvalidRequest

if TYPE_CHECKING:
    from .model import Model

MOST_SCALE = 1000.0


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


def key_of(options: EngineOptions) -> tuple[str, ...]:
    """Names what a context's values depend on beside the model, for caches that outlive the program."""
    adapters = [(state_key(expanded(name)), scale) for name, scale in options.lora]
    return (repr(adapters),) if adapters else ()
