"""LoRA adapters that a body asks for by number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

from srbwriter.engine.adapters import MOST_ADAPTERS, NO_ADAPTERS
from srbwriter.engine.backend import Backend
from srbwriter.engine.parameters import is_number
from srbwriter.engine.types import NotSupported
from srbwriter.server.errors import bad
from srbwriter.server.prompts import is_integer

Scales: TypeAlias = "tuple[tuple[int, float], ...]"


def read_lora(value: Any, engine: Backend) -> Scales | None:
    """Return the adapters of a request; None where it names none, or has a list for each branch.

    Raises ApiError: 400 for a value without a meaning, 501 where the model has no adapters.
    """
    if not value or is_one_each(value):
        return None
    return used_scales(read_scales(value), engine)


def is_one_each(value: Any) -> bool:
    """Whether there is a list of adapters for each branch."""
    entries: list[object] = cast("list[object]", value) if isinstance(value, list) else []
    lists = sum(1 for entry in entries if isinstance(entry, list))
    return lists > 0 and all(entry is None or isinstance(entry, list) for entry in entries)


def used_scales(scales: Scales, engine: Backend) -> Scales:
    """Adapters at scale 0 are none, so that every server takes them. Raises NotSupported for others."""
    used = tuple((number, scale) for number, scale in scales if scale)
    engine.capabilities.require("lora", bool(used))
    if used and engine.adapters is not None and not engine.adapters:
        raise NotSupported(NO_ADAPTERS)
    return used


def read_scales(value: Any) -> Scales:
    """``[{"id": 0, "scale": 0.5}]``; a scale that is not there is 1. Raises ApiError (400)."""
    problem = bad("lora", "Field 'lora': expected a list of objects with id and scale")
    if not isinstance(value, list):
        raise problem
    entries = cast("Sequence[Any]", value)
    if len(entries) > MOST_ADAPTERS:
        raise bad("lora", f"Field 'lora': {len(entries)} adapters, {MOST_ADAPTERS} are possible")
    found: list[tuple[int, float]] = []
    for entry in entries:
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        number, scale = fields.get("id"), fields.get("scale", 1.0)
        if not is_integer(number) or not is_number(scale):
            raise problem
        found.append((cast(int, number), float(scale)))
    return tuple(found)
