"""Scenarios of how branches differ, in which order they stand, and what none of them shows."""

from __future__ import annotations

import pytest

from srbwriter.session.ordering import ORDERS
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started


@scenario
async def variety(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("variety")
    await opened(bench, Picker)
    await bench.press(*"itself", "enter")
    assert bench.session.variety.siblings == "independent"
    await started(bench)
    assert bench.session.round.generation.request.siblings == "independent"


@scenario
async def order(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 64)
    await bench.choose("order")
    await opened(bench, Picker)
    await bench.press(*"diff", "enter")
    panes = [pane.index for pane in bench.screen.grid.query_children(BranchPane)]
    wanted = ORDERS["by difference"][1](bench.session.round)
    assert panes[: len(wanted)] == wanted
    assert [pane.index for pane in bench.screen.grid.shown] == wanted
    assert bench.screen.grid.sorting == "by difference"
    assert head(bench, wanted[1]).startswith(f" {wanted[1] + 1} ")
    await bench.press("right")
    assert bench.screen.grid.current == wanted[1]
    await bench.choose("order")
    await opened(bench, Picker)
    await bench.press(*"likel", "enter")
    current = bench.session.round
    bench.engine_until(lambda: bench.screen.flush_slowly() or len(current.mean_logprobs) == 4)
    assert len(set(current.mean_logprobs.values())) > 1
    best = sorted(current.mean_logprobs, key=lambda index: -current.mean_logprobs[index])
    assert [pane.index for pane in bench.screen.grid.shown] == best


@scenario
async def unexplored(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("unexplored")
    while not isinstance(bench.app.screen, Picker):
        bench.session.engine.process(0.01)
        await bench.pilot.pause()
    picker = await opened(bench, Picker)
    assert "of likely beginnings" in picker.heading
    await bench.press("enter")
    await bench.tokens(4)
    branch = bench.session.round.branches[4]
    assert branch.ids and branch.text.split()[0] in bench.last_said
    bench.screen.pump.flush()
    assert "chosen by you" in head(bench, 4)
