"""Fields that only this dialect has: values for each branch, and background priority."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from srbwriter.engine import limits
from srbwriter.engine.backend import Backend
from srbwriter.engine.parameters import BY_NAME
from srbwriter.engine.types import Priority, Request, Sampling, Stop
from srbwriter.server.body import Fields, branch_samplings, read_sampling, read_stop
from srbwriter.server.errors import bad
from srbwriter.server.lora import is_one_each, read_scales, used_scales

PRIORITIES = ("normal", "background", "ahead")
"""What a client may ask for: as anybody, while nobody else writes, or while nothing at all is to be done."""


def read_priority(fields: Fields) -> Priority:
    """Return the priority: a client may lower it, never raise it. Raises ApiError (400)."""
    name = fields.text("priority", "normal")
    if name not in PRIORITIES:
        raise bad("priority", f"Field 'priority': expected one of {', '.join(PRIORITIES)}")
    return Priority[name.upper()]


def split_branches(fields: Fields) -> tuple[Fields, list[Fields] | None]:
    """Fields that hold for all branches, and those with a list of values, one a branch, as one body each.

    A list is one value a branch where the field takes a single value, and a list of lists (or nulls) where it
    takes a list. None where there is no such field. Raises ApiError (400) for lists of several lengths.
    """
    listed = {name: value for name, value in fields.values.items() if _for_each(name, value)}
    if not listed:
        return fields, None
    lengths = {len(value) for value in listed.values()}
    name = next(iter(listed))
    if len(lengths) > 1:
        raise bad(name, f"Fields {', '.join(listed)}: lists of values for each branch must be equally long")
    count = lengths.pop()
    n = fields.integer("n", count)
    if n != count:
        raise bad(name, f"Field '{name}': {count} values for {n} branches")
    common = {name: value for name, value in fields.values.items() if name not in listed}
    own = [{name: value[k] for name, value in listed.items()} for k in range(count)]
    return Fields({**common, "n": count}), [Fields(values) for values in own]


def _for_each(name: str, value: Any) -> bool:
    """Whether a field holds one value a branch."""
    parameter = BY_NAME.get(name)
    if parameter is None or parameter.record == "request" or not isinstance(value, list) or not value:
        return False
    items = cast("list[Any]", value)
    if parameter.kind in ("texts", "ids"):
        return all(item is None or isinstance(item, list) for item in items) and any(items)
    return parameter.kind != "biases" and len(items) <= limits.BRANCHES


def read_branches(
    fields: Fields, engine: Backend, n: int, sampling: Sampling, stop: Stop
) -> tuple[Fields, tuple[Sampling, ...], tuple[Stop, ...] | Stop]:
    """How each of n branches is written, from ``sampling`` and ``stop`` on. Raises ApiError (400).

    An explicit seed counts up from branch to branch, unless there is one for each.
    """
    fields, own = split_branches(fields)
    sampling, stop = read_sampling(fields, sampling, engine), read_stop(fields, stop)
    every = branch_samplings(sampling, n)
    if own is None:
        return fields, every, stop
    if len(own) != n:
        raise bad("n", f"Field 'n': values for {len(own)} branches, and there are {n}")
    pairs: Sequence[tuple[Fields, Sampling]] = list(zip(own, every, strict=True))
    return (
        fields,
        tuple(read_sampling(one, base, engine) for one, base in pairs),
        tuple(read_stop(one, stop) for one in own),
    )


def for_each_branch(request: Request, value: Any, engine: Backend) -> list[Request]:
    """``request``, or one for each of its branches where ``lora`` holds a list for each of them.

    What branches with the same adapters have in common is evaluated once all the same. Raises ApiError.
    """
    if not is_one_each(value):
        return [request]
    n = request.n
    if len(value) != n:
        raise bad("lora", f"Field 'lora': {len(value)} lists of adapters for {n} branches")
    sets = [used_scales(read_scales(entry), engine) if entry else None for entry in value]
    return [
        replace(
            request, n=1, sampling=_own(request.sampling, k), stop=_own(request.stop, k), lora=sets[k]
        )
        for k in range(n)
    ]  # fmt: skip


def _own(given: Any, k: int) -> Any:
    """Return the value of branch ``k`` from one for all, or from one for each."""
    return cast("tuple[Any, ...]", given)[k] if isinstance(given, tuple) else given
