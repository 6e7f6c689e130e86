"""A branch is written again from its seed."""

from __future__ import annotations

import pytest

from srbwriter.session.replay import Replays
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import scenario, started


@scenario
async def replay(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await started(bench, 24)
    asked, begin = [], Replays.replay
    monkeypatch.setattr(Replays, "replay", lambda *given: asked.append(begin(*given)) or asked[-1])

    async def told() -> str:
        """What the writer is told once the replay has ended."""
        while (words := asked[-1].result().words[1:]) not in bench.last_said:
            await bench.pilot.pause()
        return words

    await bench.choose("replay")
    assert asked, "nothing was replayed"
    assert "it is still being written" in await told()
    bench.session.stop_all()
    await bench.settle()
    await bench.choose("replay")
    while not asked[-1].done():
        bench.session.engine.process(0.05)
    assert "he seed gives" in await told()
