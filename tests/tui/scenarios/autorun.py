"""Writing on without the writer."""

from __future__ import annotations

import time

import pytest

from srbwriter.tui.actions import autorun as actions
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, scenario, started, visible


async def begun(bench: Bench, monkeypatch: pytest.MonkeyPatch, rounds: int) -> None:
    """A run has begun; it looks at its branches at once."""
    monkeypatch.setattr(actions, "_LOOKS", 0.02)
    await started(bench)
    await bench.choose("autorun")
    await answer(bench, str(rounds))


async def rounds_done(bench: Bench, rounds: int) -> None:
    run = bench.session.autorun.run
    assert run is not None, "no run has begun"
    until = time.monotonic() + 60
    while run.active and run.done < rounds:
        assert time.monotonic() < until, run
        bench.session.engine.process(0.001)
        await bench.pilot.pause(0.005)


@scenario
async def autorun(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(bench, monkeypatch, 8)
    await rounds_done(bench, 2)
    bench.screen.flush_slowly()
    assert "round 3 of 8  ·  esc stops" in visible(bench)
    assert bench.screen.editor.whole == bench.session.text()
    story = bench.session.story
    picked = story.path(story.current)[-2:]
    for node in picked:
        assert len(story.siblings(node)) == 4
    await bench.press("escape")
    await bench.pilot.pause(0.1)
    assert "Stopped after 2 rounds." in bench.said and not bench.session.autorun.active
    await bench.press("x")  # a key of the story, which the run leaves alone
    assert bench.session.autorun.run.done == 2
