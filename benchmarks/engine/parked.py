"""The cost of parked text for running branches, and the cost of returning to a story."""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions

from .asking import FirstText, ask, rest
from .report import heading, spread, table
from .setting import Setting, part_setting, story_ids

PIECE = 500  # tokens of a parked text
OTHER_SEEDS = 1000  # those of requests that are not timed


class Contestant:
    """The second of two requests in a row, with n branches each, of a prompt that was evaluated before."""

    def __init__(self, setting: Setting, engine: Engine) -> None:
        self.setting, self.engine = setting, engine
        self.prompt = story_ids(engine, setting.prompt)

    def write(self, n: int, seed: int) -> tuple[float, float]:
        """Tokens a second of the wall's clock and of the processor's, which other work hardly changes."""
        engine, setting = self.engine, self.setting
        previous = ask(engine, setting, self.prompt, n, setting.tokens, seed + OTHER_SEEDS).wait()
        wall, busy = time.perf_counter(), time.process_time()
        generation = ask(engine, setting, self.prompt, n, setting.tokens, seed).wait()
        wall, busy = time.perf_counter() - wall, time.process_time() - busy
        tokens = sum(len(branch.ids) for branch in generation.branches)
        for branch in (*previous.branches, *generation.branches):
            branch.kill()
        rest(engine)
        return tokens / wall, tokens / busy


def run(args: argparse.Namespace) -> None:
    """An engine that holds other texts against one without; they alternate, and a ratio is a round's."""
    setting = part_setting(args, "135m-q4_0", args.parked + 4096)
    print(heading(setting))
    rows: list[list[str]] = []
    with ExitStack() as stack:
        engines = [stack.enter_context(Engine.load(setting.model, setting.options())) for _ in range(2)]
        for start in range(0, args.parked, PIECE):
            prompt = story_ids(engines[1], min(PIECE, args.parked - start), f"Tale {start}. ")
            ask(engines[1], setting, prompt, 1, 0, 1).wait()
        rest(engines[1])
        sides = [Contestant(setting, engine) for engine in engines]
        for n in args.counts or (1, 8):
            seen: list[list[tuple[float, float]]] = [[], []]
            for seed in range((args.rounds or 5) + 1):
                for k in (0, 1)[:: 1 if seed % 2 else -1]:
                    seen[k].append(sides[k].write(n, seed))
            empty, parked = ([*zip(*side[1:], strict=True)] for side in seen)  # the first pays for pages
            ratios, busy = (
                sorted(a / b for a, b in zip(parked[clock], empty[clock], strict=True)) for clock in (0, 1)
            )
            speeds = f"{median(empty[0]):.1f}", f"{median(parked[0]):.1f}"
            rows.append([str(n), *speeds, spread(ratios), f"{median(busy):.2f}"])
        stats = engines[1].stats()
    print(table(["n", "empty tok/s", "with parked text tok/s", "ratio (≥ 0.95)", "processor time"], rows))
    print(
        f"\nAfterwards {stats.used_cells} cells in use, {stats.host_bytes / 2**20:.0f} MiB in host memory, "
        f"{stats.restored_tokens} tokens restored."
    )


def reopen(args: argparse.Namespace) -> None:
    """Write on in a long story: once cold, and then with what the disk holds."""
    setting = part_setting(args, "135m-q4_0")
    with TemporaryDirectory() as folder:
        options = replace(setting.options(args.story + 1024), disk_dir=folder)
        cold, *warm = (_open(setting, options, args.story) for _ in range((args.rounds or 3) + 1))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())
    first = median(run.first for run in warm)
    rows = [
        ["first new token, s", f"{cold.first:.3f}", f"{first:.3f}"],
        ["loading the model, s", f"{cold.loading:.2f}", f"{median(run.loading for run in warm):.2f}"],
        ["tokens evaluated", str(args.story), str(max(run.evaluated for run in warm))],
        ["MiB on disk", "0", f"{size / 2**20:.0f}"],
        ["times sooner (≥ 50)", "1", f"{cold.first / first:.1f}"],
    ]
    print(heading(setting))
    print(table(["", "cold", "reopened"], rows))


class _Opened(NamedTuple):
    first: float
    loading: float
    evaluated: int


def _open(setting: Setting, options: EngineOptions, story: int) -> _Opened:
    begun = time.perf_counter()
    with Engine.load(setting.model, options) as engine:
        loading = time.perf_counter() - begun
        path = story_ids(engine, story)
        begun = time.perf_counter()
        generation = ask(engine, setting, path, 1, 8, 1)
        first = FirstText(generation, 1)
        generation.wait()
        evaluated = engine.stats().prompt_rows
        rest(engine)
        return _Opened(first.at - begun, loading, evaluated)
