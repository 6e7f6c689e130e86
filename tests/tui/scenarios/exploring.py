"""Scenarios of how branches differ, in which order they stand, and what none of them shows."""

from __future__ import annotations

import re

import pytest

from srbwriter.engine.exploring import Exploring
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
    await bench.press(*"strat", "enter")
    assert bench.session.variety.siblings == "stratified"
    await started(bench)
    assert bench.session.round.generation.request.siblings == "stratified"


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
    while bench.session.exploring.fork() is None:
        assert bench.session.engine.process()
    fork = bench.session.exploring.fork()
    await bench.choose("unexplored")
    picker = await opened(bench, Picker)
    assert "of likely beginnings" in picker.heading
    await bench.press("enter")
    await bench.tokens(4)
    branch = bench.session.round.branches[4]
    assert branch.ids[: len(fork.after) + 1] == (*fork.after, fork.unexplored[0].token)
    bench.screen.pump.flush()
    assert "chosen by you" in head(bench, 4)
    bench.screen.run("figures")
    assert any(part.startswith("shown ") for part in bench.screen.status_line.left)


@scenario
async def explore(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    before = bench.session.round
    bench.session.exploring.wanted = Exploring(cutoff=0.05, depth=4, beams=3, ends="never")
    await bench.choose("explore")
    assert bench.session.exploring.working, "nothing is explored"
    assert bench.screen.status_line.left[0].startswith("looking for likely")
    while bench.session.exploring.working:
        bench.session.engine.process(0.01)
    await bench.settle()
    current = bench.session.round
    assert current is not before and len(current.branches) == len(current.probabilities) == 3
    assert all(len(branch.ids) == 4 for branch in current.branches)
    assert re.fullmatch(r"[\d.]+ %|rare", bench.screen.grid.panes[0].note)
