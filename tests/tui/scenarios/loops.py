"""The guard against loops."""

from __future__ import annotations

import pytest

from srbwriter.launch import LOOP_TIMES as TIMES
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import scenario, started, visible


@scenario
async def loop_guard(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    for guarded in (TIMES, 0):
        bench.screen.run("loop_guard")
        await bench.settle()
        assert bench.session.sampling.loop_guard == guarded
        assert [branch.sampling.loop_guard for branch in bench.session.round.branches] == [guarded] * 4
        assert "repeat themselves" in visible(bench)
