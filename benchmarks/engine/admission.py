"""How long the engine's thread is held by letting many branches in on a long text that it holds already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter, thread_time
from unittest.mock import patch

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop

from .setting import Setting, story_ids

TOKENS = 6
"""Of each branch."""
MOMENTS = ("first", "again", "picked", "picked again", "after others")
"""The text was just evaluated; requested again; a branch picked, twice; eight other texts in between."""


@dataclass(frozen=True, slots=True)
class Admission:
    """Between two decodes, until every branch has its first token: seconds by moment, one for each round."""

    wall: dict[str, list[float]]
    processor: dict[str, list[float]]


def measure(setting: Setting, story: int, n: int, rounds: int) -> Admission:
    """Let ``n`` branches in on a story of ``story`` tokens, ``rounds`` times at each moment."""
    result = Admission({m: [] for m in MOMENTS}, {m: [] for m in MOMENTS})
    options = replace(setting.options(story + 4 * n * TOKENS + 4096), max_branches=max(n, 4))
    for number in range(rounds):
        with Engine.load(setting.model, options, thread=False) as engine:
            text = story_ids(engine, story, f"Tale {number}. ")
            _run(engine, _ask(engine, setting, text, 1, 1))
            for moment in MOMENTS:
                for k in range(8 if moment == "after others" else 0):
                    _run(engine, _ask(engine, setting, story_ids(engine, 200, f"Other {k}. "), 4, TOKENS))
                generation = _ask(engine, setting, text, n, TOKENS)
                wall, processor = _let_in(engine, generation)
                result.wall[moment].append(wall)
                result.processor[moment].append(processor)
                _run(engine, generation)
                if moment in ("again", "picked"):
                    text = [*text, *generation.branches[number % n].ids]
    return result


def _let_in(engine: Engine, generation: Generation) -> tuple[float, float]:
    """Seconds of the wall's clock and of the processor."""
    scheduler = engine._scheduler  # pyright: ignore[reportPrivateUsage]
    times: list[tuple[float, float]] = []

    def timed(change: Callable[[], None]) -> None:
        wall, processor = perf_counter(), thread_time()
        change()
        times.append((perf_counter() - wall, thread_time() - processor))

    change = scheduler._prepare_step  # pyright: ignore[reportPrivateUsage]
    with patch.object(scheduler, "_prepare_step", lambda: timed(change)):
        while not all(branch.buffer.ids for branch in generation.branches):
            engine.process()
    wall, processor = zip(*times, strict=True)
    return sum(wall), sum(processor)


def _ask(engine: Engine, setting: Setting, text: list[int], n: int, tokens: int) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    return engine.submit(Request(text, n=n, sampling=setting.sampling, stop=stop, priority=Priority.NORMAL))


def _run(engine: Engine, generation: Generation) -> None:
    """Wait for the end of a generation, and for the engine's idle work."""
    while not generation.done:
        engine.process()
    while engine.process(0.3):  # idle work begins after a rest of a quarter of a second
        pass
