"""Asking for a change in one line."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from srbwriter.session.wishes import Wishes
from srbwriter.tui.dialogs.wish import AskWish
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, head, opened, scenario, started, visible


@scenario
async def ask_change(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    for wish in ("shorter", "more rain"):
        before = bench.session.round
        await bench.choose("ask_change")
        await answer(bench, wish)
        assert bench.session.round is not before and bench.session.round.wish == wish
        bench.screen.flush_slowly()
        await bench.settle()
        assert f"asked for: {wish}" in visible(bench)
    await bench.choose("ask_change")
    line = (await opened(bench, AskWish)).query_one(Input)
    line.value = "half a w"
    shown: list[str] = []
    for key in ("up", "up", "up", "down", "down"):
        await bench.press(key)
        shown.append(line.value)
    assert shown == ["more rain", "shorter", "shorter", "more rain", "half a w"]
    await bench.press("escape")
    assert Wishes.of(bench.session).earlier == ["shorter", "more rain"]


@scenario
async def ask_change_here(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    current = bench.session.round
    first, second, *_others = current.branches
    bench.screen.grid.go(1)
    await bench.choose("ask_change_here")
    await answer(bench, "")
    assert "Type what should change" in visible(bench), "the line stays open"
    await answer(bench, "from her view")
    await bench.settle()
    await bench.tokens(8)
    assert current.branches[0] is first and current.branches[1] is not second
    pane = bench.screen.grid.panes[1]
    assert pane.branch is current.branches[1] and pane.text and bench.screen.grid.current == 1
    bench.screen.flush_slowly()
    assert "from her view" in head(bench, 1) and "from her view" not in head(bench, 0)
