"""How long a writer waits between picking a branch and the next words, in a long story."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from threading import Event as Flag
from time import perf_counter

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Priority, Request, Stop, Text

from .setting import Setting, story_ids

BETWEEN = 24  # tokens each branch writes before one is picked


@dataclass(frozen=True, slots=True)
class Pick:
    """Medians, in seconds; ``evaluated`` counts rows beyond one a branch and step."""

    step: float  # from token to token while n branches write
    after: float  # picked when all had ended
    during: float  # picked while all were writing
    evaluated: int

    @property
    def steps(self) -> tuple[float, float]:
        """Waits in decode steps: picked after the end, picked while writing."""
        return self.after / self.step, self.during / self.step


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


def measure(setting: Setting, story: int, n: int, rounds: int) -> Pick:
    """Pick ``rounds`` times in a story of ``story`` tokens, half of them while branches write."""
    steps: list[float] = []
    waits: tuple[list[float], list[float]] = ([], [])
    with Engine.load(setting.model, setting.options(2 * story + 1024)) as engine:
        path = story_ids(engine, story)
        generation = _write(engine, setting, path, n)
        pulse = Pulse(generation)
        generation.wait()
        rows = engine.stats().prompt_rows
        for number in range(2 * rounds):
            writing = number % 2
            generation = _write(engine, setting, path, n)
            pulse = Pulse(generation)
            if writing:
                pulse.enough.wait()
            else:
                generation.wait()
            begun = perf_counter()
            path = path + list(generation.branches[number % n].ids)
            generation.cancel()
            picked = _write(engine, setting, path, n)
            first = Pulse(picked)
            picked.wait()
            waits[writing].append(first.times[0] - begun)
            steps.append(pulse.step)
            path = path[:story]
        evaluated = engine.stats().prompt_rows - rows
    return Pick(median(steps), median(waits[0]), median(waits[1]), evaluated)


def _write(engine: Engine, setting: Setting, path: list[int], n: int) -> Generation:
    stop = Stop(max_tokens=BETWEEN, ignore_eog=True)
    request = Request(path, n=n, sampling=setting.sampling, stop=stop, priority=Priority.FOREGROUND)
    return engine.submit(request)
