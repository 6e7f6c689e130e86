"""Panes show what was done to them: killed, extended, or left behind by a change of the text before them."""

from __future__ import annotations

import pytest

from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench


def text_colour(pane: BranchPane) -> object:
    """The colour in which a pane paints its first words."""
    style = list(pane.render_line(1))[0].style
    assert style is not None
    return style.color


def last_line(pane: BranchPane) -> str:
    """The lowest line with words that a pane shows."""
    lines = [pane.render_line(y).text.strip("▌ ▐") for y in range(1, pane.size.height)]
    return [line for line in lines if line][-1]


@pytest.mark.parametrize("colours", ["none", "author"])
async def test_a_killed_pane_is_dim_until_it_writes_again(colours: str, open_bench: OpenBench) -> None:
    async with open_bench(settings={"instruments.colour_tokens": colours}) as bench:
        await bench.write()
        first, second = bench.screen.grid.panes[:2]
        plain = text_colour(first)
        await bench.on_panes()
        await bench.press("k")
        assert "killed" in first.head
        assert text_colour(first) != plain and text_colour(second) == plain
        await bench.press("r")
        await bench.tokens(6)
        assert text_colour(first) == plain


async def test_an_extended_branch_shows_its_new_words(open_bench: OpenBench) -> None:
    async with open_bench(size=(70, 20), started=64) as bench:
        pane = bench.screen.grid.panes[0]
        await bench.press("e")
        await bench.tokens(60)
        assert "↓" not in pane.head
        assert pane.text.rstrip().endswith(last_line(pane))


CHANGED = "Then it rained."


async def change_text(bench: Bench) -> None:
    """Write branches, change what stands before them, and go back to the panes."""
    await bench.write()
    bench.screen.editor.focus()
    bench.screen.editor.move_to(0)
    await bench.press("delete", *"Then i")
    await bench.on_panes()
    bench.screen.pump.flush()


def heads(bench: Bench) -> list[str]:
    return [pane.head for pane in bench.screen.grid.shown]


async def test_the_panes_say_that_they_were_written_for_an_earlier_text(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await change_text(bench)
        assert all("earlier text" in head for head in heads(bench))
        await bench.press("ctrl+z")
        assert bench.session.text() == "It rained."
        assert not any("earlier text" in head for head in heads(bench))


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
