"""What each branch of a round is sampled with: the session's settings, the node's own, a rung of the ladder.

Pure values; knows no story and no engine.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

from srbwriter.engine.types import Sampling
from srbwriter.story.draft import JsonObject

Ladder = tuple[str, float, float]
"""A field of :class:`Sampling`, its value for the first branch and for the last."""


def rungs(sampling: Sampling, own: JsonObject, ladder: Ladder | None, n: int) -> tuple[Sampling, ...]:
    """One for each of ``n`` branches. What ``own`` says by the names of Sampling's fields goes first."""
    known = {f.name for f in fields(Sampling)}
    base = replace(sampling, **{k: as_field(v) for k, v in own.items() if k in known})
    seeds = [None] * n if base.seed is None else [base.seed + i for i in range(n)]
    if ladder is None:
        return tuple(replace(base, seed=seed) for seed in seeds)
    name, low, high = ladder
    whole = isinstance(getattr(base, name), int)
    values = [low + (high - low) * i / max(1, n - 1) for i in range(n)]
    return tuple(
        replace(base, **{name: round(value) if whole else value, "seed": seed})
        for value, seed in zip(values, seeds, strict=True)
    )


def as_field(value: Any) -> Any:
    """A JSON value as the engine's records have it: what is a list there is a tuple here."""
    return tuple(as_field(each) for each in cast("list[Any]", value)) if isinstance(value, list) else value
