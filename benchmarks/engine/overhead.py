"""What Python costs in a step: its wall time, less the time inside decode, synchronize and sample.

The engine is driven on this thread, one :meth:`Engine.process` a step, with a stopwatch around each of
the three native functions; what the stopwatches themselves cost counts as Python.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from srbwriter.engine import Engine
from srbwriter.engine.native.library import library
from srbwriter.engine.types import BranchState, Request, Stop

from .setting import Setting, story_ids


@dataclass(frozen=True, slots=True)
class Step:
    """Medians of one n, in milliseconds."""

    n: int
    whole: float
    decode: float
    sample: float
    python: float


class Stopwatch:
    """A function, and the seconds spent in it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *args: Any) -> Any:
        begun = perf_counter()
        result = self.function(*args)
        self.seconds += perf_counter() - begun
        return result


def measure(setting: Setting, n: int, steps: int) -> Step:
    """Steps of n branches that have parted, so that each has a row of its own."""
    cells = setting.prompt + n * (steps + setting.tokens) + 256
    with Engine.load(setting.model, setting.options(cells), thread=False) as engine, ExitStack() as stack:
        decode, sample = _stopwatches(engine, stack)
        prompt = story_ids(engine, setting.prompt)
        stop = Stop(max_tokens=steps + setting.tokens, ignore_eog=True)
        generation = engine.submit(Request(prompt, n=n, sampling=setting.sampling, stop=stop))
        while any(len(b.buffer.ids) < setting.tokens // 2 for b in generation.branches):
            engine.process()
        times: list[tuple[float, float, float]] = []
        while len(times) < steps and all(b.state is BranchState.WRITING for b in generation.branches):
            decode.seconds = sample.seconds = 0.0
            begun = perf_counter()
            engine.process()
            times.append((perf_counter() - begun, decode.seconds, sample.seconds))
        generation.cancel()
        engine.process()
    whole, inside, sampling = zip(*times, strict=True)
    python = [w - d - s for w, d, s in times]
    return Step(n, *(median(values) * 1e3 for values in (whole, inside, sampling, python)))


def _stopwatches(engine: Engine, stack: ExitStack) -> tuple[Stopwatch, Stopwatch]:
    """Put stopwatches where the engine calls: decode (with synchronize), and sample."""
    lib = library()
    decode, sample = Stopwatch(lib.llama_decode), Stopwatch(lib.llama_sampler_sample)

    def synchronize(context: int) -> None:
        begun = perf_counter()
        waits(context)
        decode.seconds += perf_counter() - begun

    waits = lib.llama_synchronize
    loop = engine._scheduler.loop  # pyright: ignore[reportPrivateUsage]
    stack.enter_context(patch.object(lib, "llama_decode", decode))
    stack.enter_context(patch.object(lib, "llama_synchronize", synchronize))
    stack.enter_context(patch.object(loop, "_sample", sample))
    return decode, sample
