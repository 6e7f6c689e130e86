"""Results as Markdown tables, each figure beside its aim."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from math import isnan
from statistics import median

from srbwriter.engine.types import EngineStats

from .admission import MOMENTS, Admission
from .parked import EMPTY, PARKED, Reopened
from .pick import Pick
from .screen import Screen
from .setting import Setting, load_average, machine
from .throughput import Result


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its columns padded to one width."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    padded = [[cell.rjust(w) for cell, w in zip(line, widths, strict=True)] for line in lines]
    texts = [f"| {' | '.join(line)} |" for line in padded]
    rule = "|" + "|".join("-" * (width + 1) + ":" for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]])


def heading(setting: Setting, *more: str) -> str:
    """When, where and under what conditions: what belongs above every table."""
    now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
    return f"{', '.join(filter(None, (now, machine(), load_average(), setting.words(), *more)))}\n"


def throughput(results: Sequence[Result]) -> str:
    """Speeds of all contestants and the engine's ratio to each other one: median (lowest to highest)."""
    ours, *others = results[0].scores
    head = ["n", *(f"{name} tok/s" for name in (ours, *others))]
    for name in others:
        head += [f"engine / {name}", "processor time"]
    rows: list[list[str]] = []
    for result in results:
        row = [str(result.n), *(f"{result.speed(name):.1f}" for name in (ours, *others))]
        for name in others:
            busy = result.busy_ratio(ours, name)
            row += [_spread(result.ratios(ours, name)), "" if isnan(busy) else f"{busy:.2f}"]
        rows.append([*row, f"{result.rows(ours):.2f}"])
    return table([*head, "rows/token"], rows)


def parked(results: Sequence[Result], stats: EngineStats) -> str:
    rows = [
        [
            str(r.n), f"{r.speed(EMPTY):.1f}", f"{r.speed(PARKED):.1f}", _spread(r.ratios(PARKED, EMPTY)),
            f"{r.busy_ratio(PARKED, EMPTY):.2f}",
        ]
        for r in results
    ]  # fmt: skip
    head = ["n", "empty tok/s", "with parked text tok/s", "ratio (≥ 0.95)", "processor time"]
    return (
        f"{table(head, rows)}\n\nAfterwards {stats.used_cells} cells in use, "
        f"{stats.host_bytes / 2**20:.0f} MiB in host memory, {stats.restored_tokens} tokens restored."
    )


def reopen(result: Reopened, story: int) -> str:
    head = ["", "cold", "reopened"]
    rows = [
        ["first new token, s", f"{result.cold:.3f}", f"{result.warm:.3f}"],
        ["loading the model, s", f"{result.loading:.2f}", f"{result.finding:.2f}"],
        ["tokens evaluated", str(story), str(result.evaluated)],
        ["MiB on disk", "0", f"{result.size / 2**20:.0f}"],
        ["times sooner (≥ 20)", "1", f"{result.cold / result.warm:.1f}"],
    ]
    return table(head, rows)


def pick(result: Pick, story: int, n: int) -> str:
    moments = {
        "read": "picked when all had ended and the engine was idle",
        "ended": "picked the moment all had ended",
        "writing": "picked while all were writing",
    }
    rows = [[f"one step of {n} branches after {story} tokens", f"{result.step * 1e3:.1f}", "1", ""]]
    for moment, words in moments.items():
        rows.append(
            [
                words,
                f"{result.waits[moment] * 1e3:.1f}",
                f"{result.steps[moment]:.2f}",
                f"{result.evaluated[moment]:.2f}",
            ]
        )
    return table(["pick → next token", "ms", "decode steps (≤ 1.3)", "prompt tokens evaluated"], rows)


def screens(results: Iterable[Screen]) -> str:
    rows = [
        [
            s.name,
            f"{s.whole} of {s.panes}",
            f"{s.rows:.2f}",
            f"{s.used} / {s.cells}",
            f"{s.saved / 2**20:.0f}",
        ]
        for s in results
    ]
    head = [
        "panes × tokens", "whole (all)", "rows of the dearest pick, per new branch (≤ 1)", "cells in use",
        "MiB in memory",
    ]  # fmt: skip
    return table(head, rows)


def admission(result: Admission, n: int, story: int) -> str:
    head = [f"{n} branches let in on {story} tokens", "ms (≤ 5)", "processor time, ms"]
    rows = [
        [moment, *(f"{median(times[moment]) * 1e3:.1f}" for times in (result.wall, result.processor))]
        for moment in MOMENTS
    ]
    return table(head, rows)


def _spread(ratios: Sequence[float]) -> str:
    return f"{median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
