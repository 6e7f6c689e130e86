"""Fetching models at the command line: the progress on standard error, and models that settings name.

Chooses nothing and writes no model; ``srbwriter.models`` does.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING

from srbwriter import launch
from srbwriter.cli.exits import say
from srbwriter.config import Settings

if TYPE_CHECKING:
    from srbwriter.models.download import Progress

KEPT = "what has arrived is kept; the same command goes on from there"


def fetch_named_model(settings: Settings) -> None:
    """Fetch the model that ``--hf-repo`` or ``--model-url`` names, unless it is here already."""
    if launch.model_key(settings) in launch.REMOTE_KEYS:
        with progress_shown() as progress:
            launch.fetch_model(settings, progress)


@contextlib.contextmanager
def progress_shown() -> Generator[Progress]:
    """How far downloads are, on standard error: a bar on a terminal, a line for every tenth elsewhere."""
    try:
        with _bar() if sys.stderr.isatty() else contextlib.nullcontext(_Lines()) as progress:
            yield progress
    except KeyboardInterrupt:
        say(KEPT)
        raise


@contextlib.contextmanager
def _bar() -> Generator[Progress]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TaskID,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as Bars

    looks = (
        TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Bars(*looks, console=Console(stderr=True)) as bars:
        tasks: dict[str, TaskID] = {}

        def progress(name: str, done: int, total: int, /) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total or None)
            bars.update(tasks[name], completed=done)

        yield progress


class _Lines:
    """Progress for logs and pipes."""

    def __init__(self) -> None:
        self._said: dict[str, int] = {}

    def __call__(self, name: str, done: int, total: int, /) -> None:
        tenth = 10 * done // total if total else 0
        if tenth > self._said.get(name, -1):
            self._said[name] = tenth
            say(f"{name}: {10 * tenth} %")
