"""Scenarios of how good branches are, and of what they are not to write."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.widgets import TextArea

from srbwriter.session import judging
from srbwriter.tui.dialogs.sheet import Sheet
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, started


def at_once(act: Callable[[], None]) -> None:
    act()


@scenario
async def judge(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judging, "_aside", at_once)
    await started(bench, 64)
    await bench.choose("judge")
    judgement = bench.session.round.judgement
    assert judgement is not None, "nothing was asked"
    bench.engine_until(lambda: judgement.done)
    bench.screen.flush_slowly()
    for index, branch in enumerate(bench.session.round.branches):
        found = judgement.score(branch)
        assert found is not None and f"✓{found.mean * 100:.0f}" in head(bench, index)
    bench.screen.grid.sort_by("by score")
    bench.screen.flush_slowly()
    means = [judgement.scores[pane.index].mean for pane in bench.screen.grid.shown]
    assert means == sorted(means, reverse=True)


@scenario
async def rubric(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("rubric")
    sheet = await opened(bench, Sheet)
    sheet.query_one(TextArea).text = "Is it raining?"
    await bench.press("ctrl+s")
    assert bench.session.judging.rubric == "Is it raining?"


@scenario
async def bans(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("bans")
    sheet = await opened(bench, Sheet)
    area = sheet.query_one(TextArea)
    assert "happily ever after" in area.text and not bench.session.sampling.banned_phrases
    area.text = "# a remark\nthe\n\nand  then\nthe"
    await bench.press("ctrl+s")
    assert bench.session.sampling.banned_phrases == ("the", "and then")
    await bench.settle()
    assert all(b.sampling.banned_phrases == ("the", "and then") for b in bench.session.round.branches)
    await started(bench, 40)
    texts = [f" {branch.text.lower()}" for branch in bench.session.round.branches]
    assert not [text for text in texts if " the" in text]
    bench.screen.flush_slowly()
    gone_back = [branch for branch in bench.session.round.branches if branch.bans]
    assert gone_back and all(f"⌫{branch.bans}" in head(bench, branch.index) for branch in gone_back)
