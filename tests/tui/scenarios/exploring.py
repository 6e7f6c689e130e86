"""Scenarios of how branches differ, in which order they stand, and what none of them shows."""

from __future__ import annotations

import pytest

from srbwriter.session.variety import ORDERS
from srbwriter.tui.screens.picker import Picker
from srbwriter.tui.widgets.branch_pane import BranchPane
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started


@scenario
async def variety(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("tilde")
    await opened(bench, Picker)
    await bench.press(*"strat", "enter")
    assert bench.session.variety.siblings == "stratified"
    await started(bench)
    assert bench.session.round.generation.request.siblings == "stratified"


@scenario
async def order(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 64)
    await bench.press("colon")
    await opened(bench, Picker)
    await bench.press(*"diff", "enter")
    panes = [pane.index for pane in bench.screen.grid.query_children(BranchPane)]
    wanted = ORDERS["by difference"][1](bench.session.round)
    assert panes[: len(wanted)] == wanted
    assert [pane.index for pane in bench.screen.grid.shown] == wanted
    assert bench.screen.order == "by difference"
    assert head(bench, wanted[1]).startswith(f" {wanted[1] + 1} ")
    await bench.press("right")
    assert bench.screen.grid.current == wanted[1]
