"""Panes show what was done to them: a killed one is dim, an extended one shows its new words."""

from __future__ import annotations

import pytest

from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import OpenBench


def text_colour(pane: BranchPane) -> object:
    """The colour in which a pane paints its first words."""
    style = list(pane.render_line(1))[1].style
    assert style is not None
    return style.color


def last_line(pane: BranchPane) -> str:
    """The lowest line with words that a pane shows."""
    lines = [pane.render_line(y).text.strip("▌ ▐") for y in range(1, pane.size.height)]
    return [line for line in lines if line][-1]


async def test_a_killed_pane_is_dim_until_it_writes_again(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
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


async def test_a_killed_pane_is_dim_also_where_words_are_coloured(open_bench: OpenBench) -> None:
    async with open_bench(settings={"instruments.colour_tokens": "author"}) as bench:
        await bench.write()
        await bench.on_panes()
        first, second = bench.screen.grid.panes[:2]
        await bench.press("k")
        assert text_colour(first) != text_colour(second)


async def test_escape_first_removes_the_taking_cursor_then_stops(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        await bench.on_panes()
        pane = bench.screen.grid.panes[0]
        await bench.press("w", "w")
        assert pane.take
        await bench.press("escape")
        assert pane.take is None and bench.screen.writing
        await bench.press("escape")
        assert not bench.screen.writing


async def test_an_extended_branch_shows_its_new_words(open_bench: OpenBench) -> None:
    async with open_bench(size=(70, 20)) as bench:
        await bench.write(64)
        await bench.on_panes()
        pane = bench.screen.grid.panes[0]
        await bench.press("e")
        await bench.tokens(60)
        assert "↓" not in pane.head
        assert pane.text.rstrip().endswith(last_line(pane))


BARELY = [(80, 34), (100, 26), (120, 40)]
"""Sizes of a window in which eight branches fit; in the first two only as long as there is no strip."""


@pytest.mark.parametrize("size", BARELY)
async def test_the_tab_strip_goes_when_the_window_is_wide_again(
    open_bench: OpenBench, size: tuple[int, int]
) -> None:
    async with open_bench(n=8, size=size, fake=True) as bench:
        await bench.write()
        assert not bench.screen.strip.display and bench.screen.grid.pages == 1
        await bench.pilot.resize_terminal(60, size[1])
        await bench.settle()
        assert bench.screen.strip.display
        await bench.pilot.resize_terminal(*size)
        await bench.settle()
        assert not bench.screen.strip.display
        await bench.settle()
        assert bench.screen.grid.pages == 1
