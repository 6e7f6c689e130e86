"""The guard against loops: how many there are with it and without, and what rewinding costs."""

from __future__ import annotations

import time
from pathlib import Path

from srbwriter.engine import Engine, EngineOptions, Request, Sampling, Stop
from srbwriter.engine.types import PhraseBanned
from srbwriter.engine.watchers.loops import LoopSearch

from .bans import OPENINGS

TEMPERATURES, TIMES, AT_ONCE, TOKENS = (0.0, 0.3, 0.8), 3, 8, 500
_OPTIONS = EngineOptions(n_ctx=8192, gpu_layers=0, seed=1, threads=1, max_branches=AT_ONCE)


class Written:
    """What was written at one temperature: tokens, loops in them, tokens taken back, and seconds."""

    def __init__(self) -> None:
        self.tokens = self.loops = self.taken_back = 0
        self.seconds = 0.0

    @property
    def rate(self) -> float:
        """Loops in a thousand tokens."""
        return 1000 * self.loops / self.tokens


def run(model: Path) -> list[str]:
    lines = [
        f"{len(OPENINGS)} openings, {AT_ONCE} branches of {TOKENS} tokens each; a loop is a passage that "
        f"stands {TIMES} times in a row",
        "",
        "| temperature | loops in 1000 tokens | with the guard | tokens taken back, of 1000 | speed |",
        "|--:|--:|--:|--:|--:|",
    ]
    totals = Written(), Written()
    with Engine.load(model, _OPTIONS) as engine:
        for temperature in TEMPERATURES:
            found = Written(), Written()
            for number, opening in enumerate(OPENINGS):
                for guard in (0, 1) if number % 2 else (1, 0):  # so that other work slows both alike
                    _write(
                        engine,
                        opening,
                        Sampling(temperature, loop_guard=guard * TIMES, seed=number),
                        found[guard],
                    )
            free, guarded = found
            for total, one in zip(totals, found, strict=True):
                total.tokens, total.loops = total.tokens + one.tokens, total.loops + one.loops
            speed = (guarded.tokens / guarded.seconds) / (free.tokens / free.seconds)
            lines.append(
                f"| {temperature} | {free.rate:.2f} | {guarded.rate:.2f} | "
                f"{1000 * guarded.taken_back / guarded.tokens:.1f} | {speed:.2f} |"
            )
    free, guarded = totals
    lines += ["", f"loops: {free.rate:.2f} in 1000 tokens without the guard, {guarded.rate:.2f} with it"]
    return lines


def _write(engine: Engine, opening: str, sampling: Sampling, found: Written) -> None:
    begun = time.perf_counter()
    rule = Stop(max_tokens=TOKENS, ignore_eog=True)
    generation = engine.submit(Request(opening, n=AT_ONCE, sampling=sampling, stop=rule))
    events = list(generation.events())
    found.seconds += time.perf_counter() - begun
    found.tokens += sum(len(branch.ids) for branch in generation.branches)
    found.loops += sum(loops(branch.text) for branch in generation.branches)
    found.taken_back += sum(event.tokens for event in events if isinstance(event, PhraseBanned))


def loops(text: str) -> int:
    """Return how many loops begin in ``text``."""
    search, inside, count = LoopSearch(), False, 0
    for char in text:
        search.read(char)
        loop = search.found is not None and search.found.times >= TIMES
        count += loop and not inside
        inside = loop
    return count
