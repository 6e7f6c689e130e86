"""How long a writer waits between picking a branch and the next words, in a long story."""

from __future__ import annotations

import argparse
from statistics import median
from threading import Event as Flag
from time import perf_counter

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop, Text

from .report import heading, table
from .setting import Setting, part_setting, story_ids

BETWEEN = 24  # tokens each branch writes before one is picked


MOMENTS = {
    "read": "picked when all had ended and the engine was idle",
    "ended": "picked the moment all had ended",
    "writing": "picked while all were writing",
}


class Pulse:
    """When each step of a generation was published."""

    def __init__(self, generation: Generation) -> None:
        self.times: list[float] = []
        self.enough = Flag()
        self._generation, self._seen = generation, 0
        generation.add_listener(self._beat)
        if generation.log:
            self._beat()

    def _beat(self) -> None:
        log = self._generation.log
        events, self._seen = log[self._seen :], len(log)
        if any(isinstance(event, Text) for event in events):
            self.times.append(perf_counter())
            if len(self.times) >= BETWEEN // 2:
                self.enough.set()

    @property
    def step(self) -> float:
        """Median seconds between two tokens of a branch."""
        return median(b - a for a, b in zip(self.times, self.times[1:], strict=False))


def run(args: argparse.Namespace) -> None:
    """Pick as many times at each moment as there are rounds; medians, in decode steps as well."""
    setting, story = part_setting(args, "bundled"), args.story
    n, count = min(8, max(args.counts or (8,))), args.rounds or 5
    steps: list[float] = []
    waits: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    evaluated: dict[str, list[int]] = {moment: [] for moment in MOMENTS}
    with Engine.load(setting.model, setting.options(2 * story + 1024)) as engine:
        path = story_ids(engine, story)
        _write(engine, setting, path, n).wait()
        for number, moment in enumerate([*MOMENTS] * count):
            generation = _write(engine, setting, path, n)
            pulse = Pulse(generation)
            if moment == "writing":
                pulse.enough.wait()
            else:
                generation.wait()
            if moment == "read":
                engine.flush()  # idle work runs between two of these
                engine.flush()
            before = engine.stats().prompt_rows
            begun = perf_counter()
            chosen = path + list(generation.branches[number % n].ids)
            generation.cancel()
            picked = _write(engine, setting, chosen, n)
            first = Pulse(picked)
            picked.wait()
            waits[moment].append(first.times[0] - begun)
            evaluated[moment].append(engine.stats().prompt_rows - before)
            steps.append(pulse.step)
    step = median(steps)
    rows = [[f"one step of {n} branches after {story} tokens", f"{step * 1e3:.1f}", "1", ""]]
    for moment, words in MOMENTS.items():
        wait = median(waits[moment])
        new = f"{sum(evaluated[moment]) / count:.2f}"
        rows.append([words, f"{wait * 1e3:.1f}", f"{wait / step:.2f}", new])
    print(heading(setting))
    print(table(["pick → next token", "ms", "decode steps (≤ 1.3)", "prompt tokens evaluated"], rows))


def _write(engine: Engine, setting: Setting, path: list[int], n: int) -> Generation:
    stop = Stop(max_tokens=BETWEEN, ignore_eog=True)
    request = Request(path, n=n, sampling=setting.sampling, stop=stop, priority=Priority.NORMAL)
    return engine.submit(request)
