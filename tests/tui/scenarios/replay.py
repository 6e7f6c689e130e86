"""A branch is written again from its seed."""

from __future__ import annotations

import pytest

from srbwriter.session.replay import Replays
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import scenario, started


@scenario
async def replay(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(bench, 24)
    asked = []
    begin = Replays.replay
    monkeypatch.setattr(Replays, "replay", lambda *given: asked.append(begin(*given)) or asked[-1])

    async def answer() -> str:
        await bench.choose("replay")
        while not asked[-1].done():
            bench.session.engine.process(0.05)
        while bench.last_said == said:
            await bench.pilot.pause()
        return bench.last_said

    said = bench.last_said
    assert "it is still being written" in await answer()
    bench.session.stop_all()
    await bench.settle()
    said = bench.last_said
    assert "The seed gives the same" in await answer()
