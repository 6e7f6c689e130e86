"""How long the engine's thread is held by letting many branches in on a long text that it holds already."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter, thread_time
from unittest.mock import patch

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop

from .report import heading, table
from .setting import Setting, part_setting, story_ids

TOKENS = 6
"""Of each branch."""
MOMENTS = ("first", "again", "picked", "picked again", "after others")
"""The text was just evaluated; requested again; a branch picked, twice; eight other texts in between."""


def run(args: argparse.Namespace) -> None:
    """Let branches in at each moment: between two decodes, until every branch has its first token."""
    setting, story, n = part_setting(args, "bundled"), args.story, max(args.counts or (64,))
    wall: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    busy: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    options = replace(setting.options(story + 4 * n * TOKENS + 4096), max_branches=max(n, 4))
    for number in range(args.rounds or 3):
        with Engine.load(setting.model, options, thread=False) as engine:
            text = story_ids(engine, story, f"Tale {number}. ")
            _run(engine, _ask(engine, setting, text, 1, 1))
            for moment in MOMENTS:
                for k in range(8 if moment == "after others" else 0):
                    _run(engine, _ask(engine, setting, story_ids(engine, 200, f"Other {k}. "), 4, TOKENS))
                generation = _ask(engine, setting, text, n, TOKENS)
                seconds, processor = _let_in(engine, generation)
                wall[moment].append(seconds)
                busy[moment].append(processor)
                _run(engine, generation)
                if moment in ("again", "picked"):
                    text = [*text, *generation.branches[number % n].ids]
    head = [f"{n} branches let in on {story} tokens", "ms (≤ 5)", "processor time, ms"]
    rows = [
        [moment, f"{median(wall[moment]) * 1e3:.1f}", f"{median(busy[moment]) * 1e3:.1f}"]
        for moment in MOMENTS
    ]
    print(heading(setting))
    print(table(head, rows))


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
