"""A writer's speed beside other clients.

The other is a client that sends and cancels requests all the time, like completion while typing. A writer
writes alone and beside it by turns; the ratio is that of neighbouring runs. Alone twice shows the noise. With
``--threads 0`` the engine chooses its threads, and there are two more neighbours: a program that keeps a core
busy, and one that computes for a fifth of each second. Wall time is what the writer notices; processor time
hardly changes with other work on the machine if there is one thread.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import TypeAlias

from srbwriter.engine import Engine
from srbwriter.engine.types import Priority, Request, Sampling, Stop

from .setting import TEXT, Setting, model_path

AIM = 0.9  # beside a client that cancels
PERIODS = (0.02, 0.05, 0.1)  # seconds
_ASKED = 100  # tokens of a prompt that is cancelled, about

Speed: TypeAlias = "tuple[float, float]"
"""Tokens a second of the wall's clock, and of the processor's."""


@dataclass(frozen=True, slots=True)
class Result:
    """A writer beside one kind of neighbour; each pair is alone and beside, next to each other in time."""

    name: str
    aim: float
    pairs: Sequence[tuple[Speed, Speed]]
    got: str  # what the neighbour had of it

    def ratio(self, clock: int) -> str:
        ratios = sorted(beside[clock] / alone[clock] for alone, beside in self.pairs)
        return f"{median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"

    def row(self) -> str:
        alone, beside = (median(pair[k][0] for pair in self.pairs) for k in (0, 1))
        aim = f"≥ {self.aim}" if self.aim else ""
        return (
            f"| {self.name} | {alone:.1f} | {beside:.1f} | {self.ratio(0)} | {self.ratio(1)} | "
            f"{aim} | {self.got} |"
        )


HEAD = """\
| beside | alone tok/s | beside tok/s | ratio | ratio, processor time | aim | it got |
|---|---:|---:|---:|---:|---:|---|"""


def write(engine: Engine, setting: Setting) -> Speed:
    """The writer, once."""
    stop = Stop(max_tokens=setting.tokens, ignore_eog=True)
    wall, used = time.perf_counter(), time.process_time()
    request = Request(TEXT, sampling=Sampling(seed=1), stop=stop, priority=Priority.NORMAL)
    engine.submit(request).wait(600)
    wall, used = time.perf_counter() - wall, time.process_time() - used
    return setting.tokens / wall, setting.tokens / used


@contextmanager
def cancelling(engine: Engine, period: float, fresh: bool, remarks: list[str]) -> Generator[None]:
    """Ask and cancel every ``period`` seconds, always the same or something new."""
    over, requests = threading.Event(), 0

    def run() -> None:
        nonlocal requests
        last = None
        for number in itertools.count():
            text = (f"{number} " if fresh else "") + TEXT
            last, before = engine.submit(Request(text[: 4 * _ASKED], n=2, stop=Stop(ignore_eog=True))), last
            if before is not None:
                before.cancel()
            requests = number + 1
            if over.wait(period):
                break
        last.cancel()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        remarks.append(f"{requests} requests")


_COMPUTE = """
import sys, time
seconds, pause = map(float, sys.argv[1:])
while True:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    time.sleep(pause)
"""


@contextmanager
def computing(seconds: float, pause: float) -> Generator[None]:
    """Another program that computes for so long, and sleeps then."""
    with subprocess.Popen([sys.executable, "-c", _COMPUTE, str(seconds), str(pause)]) as program:
        try:
            yield
        finally:
            program.kill()


def compare(
    engine: Engine, setting: Setting, rounds: int, beside: Callable[[], AbstractContextManager[None]]
) -> list[tuple[Speed, Speed]]:
    """Alone and beside, and every other round the other way round."""
    pairs: list[tuple[Speed, Speed]] = []
    for number in range(rounds):
        speeds: dict[bool, Speed] = {}
        for alone in (True, False) if number % 2 else (False, True):
            with nullcontext() if alone else beside():
                speeds[alone] = write(engine, setting)
        pairs.append((speeds[True], speeds[False]))
    return pairs


def measure(setting: Setting, rounds: int, periods: Sequence[float]) -> Iterator[Result]:
    with Engine.load(setting.model, setting.options()) as engine:
        write(engine, setting)
        remarks: list[str] = []
        pairs = compare(engine, setting, rounds, nullcontext)
        yield Result("nobody", 0.0, pairs, "")
        if setting.defaults:
            for name, pause in (
                ("a program that keeps a core busy", 0.0),
                ("one busy 0.2 s of each second", 0.8),
            ):
                yield Result(name, 0.0, compare(engine, setting, rounds, partial(computing, 0.2, pause)), "")
        for period, fresh in itertools.product(periods, (False, True)):
            what = "new prompts" if fresh else "one prompt"
            name = f"a client that cancels every {1000 * period:.0f} ms, {what}"
            pairs = compare(engine, setting, rounds, partial(cancelling, engine, period, fresh, remarks))
            yield Result(name, AIM, pairs, remarks[-1])


def run(args: argparse.Namespace) -> None:
    path = model_path(args.model or "bundled", args.models)
    setting = Setting(path, tokens=args.tokens or 300, threads=args.threads, defaults=not args.threads)
    rounds = args.rounds or 5
    print(f"{setting.words()}, {setting.tokens} tokens a run, {rounds} rounds\n\n{HEAD}")
    for result in measure(setting, rounds, PERIODS):
        print(result.row(), flush=True)
