"""How much processor time a step of a model takes, and how fast the memory is read.

Times are those of the thread that computes: other programs make a step longer, and not what it takes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from .engine import Engine
from .types import EngineOptions, Request, Sampling, Stop

_SECONDS = 0.3
"""For each number of branches, as soon as there are enough steps."""
_STEPS = 5
_DIFFERENT = Sampling(temperature=5.0, top_k=100, top_p=1.0, min_p=0.0)
"""Tokens that branches have in common are computed once."""
_READ = 256 << 20
"""Bytes that are read in all; no cache but those of the largest servers holds as many."""


def measure_steps(path: str | os.PathLike[str], branches: Sequence[int]) -> list[float]:
    """Return the seconds that one core takes for a step, for each number of branches that are written in it.

    Takes about a second with a small model. Raises ModelError.
    """
    options = EngineOptions(
        gpu_layers=0, n_ctx=1024, threads=1, max_branches=max(branches), host_bytes=0
    )  # fmt: skip
    with Engine.load(path, options, thread=False) as engine:
        return [_measure_step(engine, count) for count in branches]


def _measure_step(engine: Engine, branches: int) -> float:
    stop = Stop(max_tokens=engine.n_ctx // branches - 8, ignore_eog=True)
    generation = engine.submit(Request("Once", n=branches, stop=stop, sampling=_DIFFERENT))
    steps: list[float] = []
    end = time.monotonic() + _SECONDS
    while len(steps) < _STEPS or time.monotonic() < end:
        written = sum(len(branch.buffer.ids) for branch in generation.branches)
        begin = time.thread_time()
        if not engine.process(0):
            break  # no room for more
        seconds = time.thread_time() - begin
        if sum(len(branch.buffer.ids) for branch in generation.branches) == written + branches:
            steps.append(seconds)
    generation.cancel()
    while engine.process(0):
        pass
    return median(steps)


def measure_bandwidth(threads: int) -> float:
    """Return how many bytes of memory so many threads read in a second. Takes a quarter of a second."""
    import numpy as np

    def read(part: np.ndarray[tuple[int], np.dtype[np.uint8]]) -> float:
        begin = time.thread_time()
        part.max()
        return part.size / (time.thread_time() - begin)

    parts = [np.ones(_READ // threads, np.uint8) for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        return max(sum(pool.map(read, parts)) for _ in range(3))
