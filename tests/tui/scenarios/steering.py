"""Steering one branch while it is written."""

from __future__ import annotations

import pytest

from srbwriter.session.steering import Steering
from srbwriter.tui.dialogs.ask import AskWords, Confirm
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, head, opened, scenario, started


async def chosen(bench: Bench, key: str) -> None:
    """Press the key of an entry of the dialog."""
    bench.screen.run("steer")
    await opened(bench, Confirm)
    await bench.press(key)


@scenario
async def steer(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    branch, other = bench.session.round.branches[:2]
    await chosen(bench, "n")
    await opened(bench, AskWords)
    await answer(bench, "It is night.")
    done = Steering.of(bench.session).later(lambda: None)
    while not (done.done() and "follows its note" in bench.said):
        await bench.settle()
    bench.screen.flush_slowly()
    assert "note" in head(bench) and "note" not in head(bench, 1)

    await chosen(bench, "s")
    bench.engine_until(lambda: not branch.live)
    assert branch.finish_reason == "sentence" and other.stop_rule.boundary is None
