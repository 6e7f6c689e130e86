"""The cost of parked text for running branches, and the cost of returning to a story."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions, EngineStats

from .asking import FirstText, ask, rest
from .contestants import EngineContestant
from .setting import Setting, story_ids
from .throughput import Result, rounds

PIECE = 500  # tokens of a parked text
EMPTY, PARKED = "empty", "parked"


def speeds(
    setting: Setting, tokens: int, counts: Sequence[int], number: int
) -> tuple[list[Result], EngineStats]:
    """An engine with ``tokens`` tokens of other texts against one without; and the former's numbers after."""
    with ExitStack() as stack:
        empty, parked = (stack.enter_context(Engine.load(setting.model, setting.options())) for _ in range(2))
        for start in range(0, tokens, PIECE):
            prompt = story_ids(parked, min(PIECE, tokens - start), f"Tale {start}. ")
            ask(parked, setting, prompt, 1, 0, 1).wait()
        rest(parked)
        contestants = [
            EngineContestant(setting, parked, name=PARKED), EngineContestant(setting, empty, name=EMPTY)
        ]  # fmt: skip
        results = [rounds(contestants, n, number) for n in counts]
        return results, parked.stats()


@dataclass(frozen=True, slots=True)
class Reopened:
    """Seconds until the first new token of a story; ``evaluated`` are tokens of it, when it was on disk."""

    cold: float
    warm: float
    loading: float  # of an engine whose disk is empty
    finding: float  # of one that finds the story there
    evaluated: int
    size: int  # bytes on disk


def reopen(setting: Setting, story: int, number: int) -> Reopened:
    """Write on in a story of ``story`` tokens: once cold, and ``number`` times with what the disk holds."""
    with TemporaryDirectory() as folder:
        options = replace(setting.options(story + 1024), disk_dir=folder)
        cold, *warm = (_open(setting, options, story) for _ in range(number + 1))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    return Reopened(
        cold.first, median(run.first for run in warm), cold.loading, median(run.loading for run in warm),
        max(run.evaluated for run in warm), size,
    )  # fmt: skip


class _Opened(NamedTuple):
    first: float
    loading: float
    evaluated: int


def _open(setting: Setting, options: EngineOptions, story: int) -> _Opened:
    begun = time.perf_counter()
    with Engine.load(setting.model, options) as engine:
        loading = time.perf_counter() - begun
        path = story_ids(engine, story)
        begun = time.perf_counter()
        generation = ask(engine, setting, path, 1, 8, 1)
        first = FirstText(generation, 1)
        generation.wait()
        evaluated = engine.stats().prompt_rows
        rest(engine)
        return _Opened(first.at - begun, loading, evaluated)
