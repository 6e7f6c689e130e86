"""Panes of branches that were written for an earlier text: they say so, and a pick of one asks first."""

from __future__ import annotations

import pytest

from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.dialogs.sheet import Sheet
from srbwriter.tui.write.branch_words import Head
from tests.tui.conftest import Bench, OpenBench

CHANGED = "Then it rained."


async def change_text(bench: Bench) -> None:
    """Write branches, change what stands before them, and go back to the panes."""
    await bench.write()
    bench.screen.editor.focus()
    bench.screen.editor.go(0)
    await bench.press("delete", *"Then i")
    await bench.on_panes()
    bench.screen.pump.flush()


def heads(bench: Bench) -> list[str]:
    return [pane.head for pane in bench.screen.grid.shown]


async def test_the_panes_say_that_they_were_written_for_an_earlier_text(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await change_text(bench)
        assert all("earlier text" in head for head in heads(bench))
        assert all(pane.has_class("-stale") for pane in bench.screen.grid.shown)
        await bench.press("ctrl+z")
        assert bench.session.text() == "It rained."
        assert not any("earlier text" in head for head in heads(bench))
        assert not any(pane.has_class("-stale") for pane in bench.screen.grid.shown)


@pytest.mark.parametrize("keys", [("2",), ("right", "w", "w", "enter")])
async def test_a_pick_asks_and_takes_it_all_the_same(open_bench: OpenBench, keys: tuple[str, ...]) -> None:
    async with open_bench() as bench:
        await change_text(bench)
        second = bench.texts()[1]
        await bench.press(*keys)
        assert isinstance(bench.app.screen, Confirm) and bench.session.text() == CHANGED
        await bench.press("escape")
        assert bench.app.screen is bench.screen and bench.session.text() == CHANGED
        await bench.press(*keys[-1:], "t")
        taken = bench.session.text().removeprefix(CHANGED)
        assert taken and second.startswith(taken) and (taken == second) == ("w" not in keys)
        assert not any("earlier text" in head for head in heads(bench))


async def test_enter_writes_new_branches_instead(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await change_text(bench)
        before = bench.session.round
        await bench.press("2", "enter")
        await bench.tokens(4)
        assert bench.session.text() == CHANGED and bench.session.round is not before
        assert not any("earlier text" in head for head in heads(bench))


@pytest.mark.full
async def test_editing_before_a_pick_asks_once(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await change_text(bench)
        first = bench.texts()[0]
        await bench.press("o")
        assert isinstance(bench.app.screen, Confirm)
        await bench.press("t")
        assert isinstance(bench.app.screen, Sheet)
        await bench.press("ctrl+end", "!", "ctrl+s")
        assert bench.session.text() == f"{CHANGED}{first}!"


@pytest.mark.parametrize("width", [25, 30, 40, 60, 100])
def test_the_line_says_it_at_any_width(width: int) -> None:
    head = Head("12", "■", "full length", 30, "temp 1.2, top p 0.95", "locked ★ good", 12, 300, 20.0, True)
    assert "earlier text" in head.line(width)
