"""Scenarios of commands that take the story out into a file, or a file into a story."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import Story
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, scenario

LONG = 60.0  # seconds; only a failing test waits that long


async def ended(bench: Bench) -> None:
    """Wait until the export or import is over and said."""
    begun = time.monotonic()
    while bench.app.transfers.busy:
        assert time.monotonic() < begun + LONG, "it does not end"
        await asyncio.sleep(0.02)
        bench.screen.pump.flush()
    await bench.pilot.pause()


@scenario
async def export(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(bench.session.story.file).parent
    monkeypatch.chdir(folder)
    await bench.press(*" Hard")  # what is typed goes along
    bench.screen.run("export")
    await answer(bench, "rain.txt")
    await ended(bench)
    assert (folder / "rain.txt").read_text() == "It rained. Hard"


@scenario
async def import_(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path(bench.session.story.file).parent
    monkeypatch.chdir(folder)
    (folder / "tale.txt").write_text("Once upon a time.")
    bench.screen.run("import")
    await answer(bench, "tale.txt")
    await ended(bench)
    assert bench.app.next_story == paths.library_dir() / "tale.srbw"
    with Story.open(bench.app.next_story, readonly=True) as story:
        assert story.text(story.current) == "Once upon a time."
