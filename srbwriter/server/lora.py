"""LoRA adapters over the wire: which there are, how much of each a request wants, and what is usual.

Scales are read and written as llama.cpp does. A list for each branch is this program's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

from starlette.responses import Response

from srbwriter.engine.adapters import MOST_ADAPTERS, Adapters
from srbwriter.engine.backend import Backend
from srbwriter.engine.parameters import is_number
from srbwriter.engine.types import Request

from .body import Body, is_integer
from .call import Call, json_response
from .errors import ApiError, bad

Scales: TypeAlias = "tuple[tuple[int, float], ...]"


async def lora_adapters(call: Call) -> Response:
    """Every adapter with the scale that requests get which name none."""
    adapters = _of(call.engine)
    return json_response([
        {"id": one.id, "path": one.path, "scale": one.scale, "task_name": "", "prompt_prefix": ""}
        for one in (adapters.list() if adapters is not None else ())
    ])  # fmt: skip


async def set_lora_adapters(call: Call) -> Response:
    """Set those scales; what is running goes on with its own."""
    scales = _scales(await call.value())
    adapters = _of(call.engine)
    if not adapters:
        raise ApiError(501, "this server was started without LoRA adapters; give it some with --lora")
    adapters.defaults = scales
    return json_response({"success": True})


def read_lora(body: Body, engine: Backend) -> Scales | None:
    """The adapters that a request wants; None where it names none, or has a list for each branch.

    Raises ApiError: 400 for what means nothing, 501 where there are no adapters at all.
    """
    value = body.raw("lora")
    if not value or _for_each(value):
        return None
    return _used(_scales(value), engine)


def for_each_branch(request: Request, body: Body, engine: Backend) -> list[Request]:
    """``request``, or one for each of its branches where ``lora`` holds a list for each of them.

    What branches with the same adapters have in common is evaluated once all the same. Raises ApiError.
    """
    value = body.raw("lora")
    if not _for_each(value):
        return [request]
    n = request.n
    if len(value) != n:
        raise bad("lora", f"Field 'lora': {len(value)} lists of adapters for {n} branches")
    sets = [_used(_scales(entry), engine) if entry else None for entry in value]
    return [
        replace(
            request, n=1, sampling=_own(request.sampling, k), stop=_own(request.stop, k), lora=sets[k]
        )
        for k in range(n)
    ]  # fmt: skip


def _own(given: Any, k: int) -> Any:
    """What is the k-th branch's of one for all or one for each."""
    return cast("tuple[Any, ...]", given)[k] if isinstance(given, tuple) else given


def _for_each(value: Any) -> bool:
    entries: list[object] = cast("list[object]", value) if isinstance(value, list) else []
    lists = sum(1 for entry in entries if isinstance(entry, list))
    return lists > 0 and all(entry is None or isinstance(entry, list) for entry in entries)


def _of(engine: Backend) -> Adapters | None:
    return getattr(engine, "adapters", None)


def _used(scales: Scales, engine: Backend) -> Scales:
    """Adapters at scale 0 are none, so that every server takes them."""
    used = tuple((number, scale) for number, scale in scales if scale)
    if used and not _of(engine):
        raise ApiError(501, "this server was started without LoRA adapters; give it some with --lora")
    return used


def _scales(value: Any) -> Scales:
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
