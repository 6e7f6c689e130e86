"""What choosing words costs in a large vocabulary: on one thread, on several, or in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Any
from unittest.mock import patch

from srbwriter.engine import Engine
from srbwriter.engine.native.library import library
from srbwriter.engine.types import Request, Sampling, Stop

from .setting import Setting, story_ids

CHAINS = {"default": Sampling(), "temperature alone": Sampling(top_k=0, top_p=1.0, min_p=0.0)}
WAYS: dict[str, Callable[[int], dict[str, Any]]] = {
    "one thread": lambda _: {"sampling_threads": 1},
    "several": lambda threads: {"sampling_threads": max(threads, 2)},
    "its own choice": lambda _: {},
    "in the graph": lambda _: {"backend_sampling": True},
}


@dataclass(frozen=True, slots=True)
class Choosing:
    """Medians of one n and one chain, in milliseconds, by way: of a step, and of all in it but decoding."""

    n: int
    chain: str
    step: dict[str, float]
    beside: dict[str, float]


def measure(setting: Setting, counts: Sequence[int], steps: int, rounds: int) -> Iterator[Choosing]:
    """``rounds`` by turns of ``steps`` steps each, for each number of branches."""
    for n in counts:
        for name, sampling in CHAINS.items():
            times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
            for _ in range(rounds):
                for way, options in WAYS.items():
                    chosen = replace(setting, sampling=sampling)
                    times[way] += _steps(chosen, options(setting.thread_count), n, steps)
            yield Choosing(
                n, name,
                {way: 1e3 * median(step for step, _ in found) for way, found in times.items()},
                {way: 1e3 * median(beside for _, beside in found) for way, found in times.items()},
            )  # fmt: skip


def _steps(setting: Setting, options: dict[str, Any], n: int, steps: int) -> list[tuple[float, float]]:
    """Seconds of each step, and of these, seconds outside of llama_decode and llama_synchronize."""
    warm = 40  # steps: branches part, and both ways have been tried
    inside = 0.0
    lib: Any = library()

    def timed(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            nonlocal inside
            begun = perf_counter()
            result = function(*given)
            inside += perf_counter() - begun
            return result

        return call

    cells = setting.prompt + n * (steps + warm) + 512
    with Engine.load(setting.model, replace(setting.options(cells), **options), thread=False) as engine:
        stop = Stop(max_tokens=steps + warm, ignore_eog=True)
        prompt = story_ids(engine, setting.prompt)
        generation = engine.submit(Request(prompt, n=n, sampling=setting.sampling, stop=stop))
        while min(len(branch.buffer.ids) for branch in generation.branches) < warm:
            engine.process()
        times: list[tuple[float, float]] = []
        with (
            patch.object(lib, "llama_decode", timed(lib.llama_decode)),
            patch.object(lib, "llama_synchronize", timed(lib.llama_synchronize)),
        ):
            while not generation.done:
                inside, begun = 0.0, perf_counter()
                engine.process()
                whole = perf_counter() - begun
                times.append((whole, whole - inside))
    return times
