"""Results as Markdown tables, each figure beside its aim."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from statistics import median

from .setting import Setting, load_average, machine


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


def spread(ratios: Sequence[float]) -> str:
    """The median, with lowest and highest."""
    return f"{median(ratios):.2f} ({ratios[0]:.2f}–{ratios[-1]:.2f})"
