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


#: A branch is picked after the ended branches were read, the moment they have ended, while all are writing.
MOMENTS = ("read", "ended", "writing")


@dataclass(frozen=True, slots=True)
class Pick:
    """Medians, in seconds; ``evaluated`` counts prompt tokens for each pick."""

    step: float  # from token to token while n branches write
    waits: dict[str, float]  # from pick to text, by moment
    evaluated: dict[str, float]

    @property
    def steps(self) -> dict[str, float]:
        """Waits in decode steps."""
        return {moment: wait / self.step for moment, wait in self.waits.items()}


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
    """Pick ``rounds`` times at each moment in a story of ``story`` tokens."""
    steps: list[float] = []
    waits: dict[str, list[float]] = {moment: [] for moment in MOMENTS}
    evaluated: dict[str, list[int]] = {moment: [] for moment in MOMENTS}
    with Engine.load(setting.model, setting.options(2 * story + 1024)) as engine:
        path = story_ids(engine, story)
        _write(engine, setting, path, n).wait()
        for number, moment in enumerate(MOMENTS * rounds):
            generation = _write(engine, setting, path, n)
            pulse = Pulse(generation)
            if moment == "writing":
                pulse.enough.wait()
            else:
                generation.wait()
            if moment == "read":
                engine.flush()  # idle work runs between two of these
                engine.flush()
            rows = engine.stats().prompt_rows
            begun = perf_counter()
            chosen = path + list(generation.branches[number % n].ids)
            generation.cancel()
            picked = _write(engine, setting, chosen, n)
            first = Pulse(picked)
            picked.wait()
            waits[moment].append(first.times[0] - begun)
            evaluated[moment].append(engine.stats().prompt_rows - rows)
            steps.append(pulse.step)
    return Pick(
        median(steps),
        {moment: median(times) for moment, times in waits.items()},
        {moment: sum(counts) / len(counts) for moment, counts in evaluated.items()},
    )


def _write(engine: Engine, setting: Setting, path: list[int], n: int) -> Generation:
    stop = Stop(max_tokens=BETWEEN, ignore_eog=True)
    request = Request(path, n=n, sampling=setting.sampling, stop=stop, priority=Priority.NORMAL)
    return engine.submit(request)
