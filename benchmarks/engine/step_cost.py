"""What a step costs outside ``llama_decode``, of this checkout and of another one, taken in turns.

``python -m benchmarks.engine.step_cost --against PATH`` starts a process for each round, n and checkout, so
that both are measured in the same minutes. The bundled model writes on one thread; a step's time outside
``llama_decode`` and ``llama_synchronize`` is what Python and the samplers take. It is the thread's processor
time, so that other programs on the machine count only by what they push out of the caches.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import thread_time
from typing import Any

HERE = Path(__file__).resolve().parents[2]
SIZES = (1, 8, 32)
STEPS = 100


def measure(n: int, steps: int) -> float:
    """Return the median time of a step of ``n`` branches outside ``llama_decode``, in microseconds."""
    from srbwriter.demo import bundled_model
    from srbwriter.engine import Engine
    from srbwriter.engine.native.library import library
    from srbwriter.engine.types import EngineOptions, Request, Sampling, Stop

    lib, inside = library(), [0.0]

    def timed(function: Any) -> Any:
        def call(*args: Any) -> Any:
            begun = thread_time()
            result = function(*args)
            inside[0] += thread_time() - begun
            return result

        return call

    options = EngineOptions(n_ctx=256 + n * (steps + 80), threads=1, max_branches=32)
    with Engine.load(bundled_model(), options, thread=False) as engine:
        lib.llama_decode, lib.llama_synchronize = timed(lib.llama_decode), timed(lib.llama_synchronize)
        stop = Stop(max_tokens=steps + 60, ignore_eog=True)
        request = Request("Once there was a fox who", n=n, sampling=Sampling(seed=1), stop=stop)
        generation = engine.submit(request)
        while any(len(branch.buffer.ids) < 40 for branch in generation.branches):
            engine.process()
        times: list[float] = []
        for _ in range(steps):
            inside[0] = 0.0
            begun = thread_time()
            engine.process()
            times.append(thread_time() - begun - inside[0])
        generation.cancel()
    return median(times) * 1e6


def _in_process(checkout: Path, n: int) -> float:
    """Return what a fresh process with the engine of ``checkout`` measures."""
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(Path(__file__).resolve()), "--child", str(n)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="a checkout to compare with")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(measure(given.child, STEPS))
        return
    for n in SIZES:
        here, there = list[float](), list[float]()
        for _ in range(given.rounds):
            here.append(_in_process(HERE, n))
            if given.against:
                there.append(_in_process(given.against.resolve(), n))
        line = f"n = {n:2}: {median(here):6.0f} µs a step"
        if there:
            ratios = [mine / other for mine, other in zip(here, there, strict=True)]
            line += f", {median(there):6.0f} there, ratio {median(ratios):.2f}"
            line += f" ({min(ratios):.2f}–{max(ratios):.2f})"
        print(line, flush=True)


if __name__ == "__main__":
    main()
