"""Scenarios of commands on one branch."""

from __future__ import annotations

import pytest
from textual.widgets import TextArea

from srbwriter.engine.types import BranchState, FinishReason
from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.sheet import Sheet
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started


@scenario
async def pick_number(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    picked = bench.texts()[1]
    await bench.press("2")
    assert bench.session.text() == "It rained." + picked
    assert len(bench.session.story.children(bench.session.story.parent(bench.session.node))) == 4


@scenario
async def pick(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    picked = bench.texts()[0]
    await bench.press("enter")
    assert bench.session.text() == "It rained." + picked


@scenario
async def reroll(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    before = bench.texts()
    await bench.press("r")
    await bench.tokens(3)
    after = bench.texts()
    assert not after[0].startswith(before[0])
    assert after[1].startswith(before[1])
    assert bench.screen.grid.panes[0].text == after[0]


@scenario
async def kill(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("k")
    branches = bench.session.round.branches
    assert branches[0].finish_reason is FinishReason.KILLED
    assert branches[1].live
    assert "killed" in head(bench)


@scenario
async def stop(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    text = bench.texts()[0]
    await bench.press("s")
    await bench.tokens(3)
    assert bench.texts()[0] == text
    assert "stopped" in head(bench)
    assert bench.session.round.branches[1].live


@scenario
async def pause(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("space")
    assert bench.session.round.branches[0].state is BranchState.PAUSED
    assert "paused" in head(bench)
    before = bench.texts()[0]
    await bench.tokens(2)
    assert bench.texts()[0] == before
    await bench.press("space")
    await bench.tokens(2)
    assert bench.session.round.branches[0].state is BranchState.WRITING
    assert bench.texts()[0].startswith(before) and bench.texts()[0] != before


@scenario
async def extend(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 64)
    assert "full length" in head(bench)
    before = bench.texts()[0]
    await bench.press("e")
    await bench.tokens(3)
    assert bench.texts()[0].startswith(before) and len(bench.texts()[0]) > len(before)


@scenario
async def rewind(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 1)
    bench.session.steer(0, "append", go_on=True, text=" It was late. Nobody came.")
    await bench.press("backspace")
    assert bench.texts()[0].endswith("It was late.")


@scenario
async def edit_pick(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("o")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = " It stopped."
    await bench.press("ctrl+s")
    assert bench.session.text() == "It rained. It stopped."


@scenario
async def copy(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("c")
    assert bench.app.clipboard == bench.texts()[0]


@scenario
async def bookmark(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("b")
    assert bench.session.story.bookmarks() == [bench.session.round.node_of(0)]
    assert "★" in head(bench)
    await bench.press("b")
    assert bench.session.story.bookmarks() == []


@scenario
async def branch_knobs(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("branch_knobs")
    await opened(bench, Knobs)
    await bench.press("right")
    assert bench.session.round.branches[0].sampling.temperature == pytest.approx(0.85)
    assert bench.session.round.branches[1].sampling.temperature == pytest.approx(0.8)
    assert "temp 0.85" in head(bench)
