"""Widgets by themselves: where panes stand, what the editor keeps in view, lines and clicks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual import events
from textual.geometry import Offset

from srbwriter.tui.write.branch_grid import MIN_HEIGHT, MIN_WIDTH, best_columns
from srbwriter.unspaced import CHARACTER
from tests.tui.conftest import OpenBench
from tests.tui.steps import visible

PARAGRAPH = "The tide came in and nobody said a word about the lamp.\n\n"


@given(st.integers(1, 64), st.integers(20, 300), st.integers(4, 100))
def test_panes_are_never_narrower_than_can_be_read(n: int, width: int, height: int) -> None:
    columns = best_columns(n, width, height)
    assert 1 <= columns <= n and (columns == 1 or width // columns >= MIN_WIDTH)


async def test_branches_that_do_not_fit_scroll_into_view_when_they_are_chosen(open_bench: OpenBench) -> None:
    async with open_bench(n=40, size=(80, 30), fake=True, started=2) as bench:
        grid = bench.screen.grid
        last = grid.panes[39]
        assert last.text and not grid.region.overlaps(last.region)
        for key in ("down", "down", "down", "down", "down"):
            await bench.press(key)
        await bench.settle()
        assert grid.current == 10 and grid.region.contains_region(grid.panes[10].region)
        grid.go(39)
        await bench.settle()
        assert grid.region.contains_region(last.region) and last.size.height == MIN_HEIGHT
        await bench.write(2)
        await bench.settle()
        assert grid.scroll_y == 0


@pytest.mark.parametrize(
    ("text", "stops"),
    [
        ("他把灯 的ma", [0, 1, 2, 3, 5, 7]),
        ("It's dark, 海", [0, 2, 3, 4, 9, 11, 12]),
    ],
)
async def test_the_cursor_goes_by_words_that_nothing_parts(
    open_bench: OpenBench, text: str, stops: list[int]
) -> None:
    async with open_bench(text) as bench:
        editor = bench.screen.editor
        editor.move_to(0)
        for stop in stops[1:]:
            await bench.press("ctrl+right")
            assert editor.cursor == stop
        there = {editor.cursor}
        while editor.cursor:
            await bench.press("ctrl+left")
            there.add(editor.cursor)
        assert there >= {stop for stop in stops if CHARACTER.match(text[stop : stop + 1])}


async def test_a_word_that_nothing_parts_is_deleted_alone(open_bench: OpenBench) -> None:
    async with open_bench("他把灯塔的门") as bench:
        bench.screen.editor.move_to(2)
        await bench.press("alt+delete")
        assert bench.screen.editor.text == "他把塔的门"
        await bench.press("ctrl+w")
        assert bench.screen.editor.text == "他塔的门"
        bench.screen.editor.shut("it is shut")
        await bench.press("alt+delete", "ctrl+w")
        assert bench.screen.editor.text == "他塔的门"


async def test_a_book_is_typed_into_where_the_cursor_is(open_bench: OpenBench) -> None:
    book = PARAGRAPH * 3000
    async with open_bench("It rained. It stopped.") as bench:
        editor = bench.screen.editor
        editor.move_to(len("It rained. "))
        bench.app.post_message(events.Paste(book))
        await bench.settle()
        await bench.press("X")
        assert editor.text == bench.session.text() == f"It rained. {book}XIt stopped."
        await bench.press("ctrl+z", "ctrl+z")
        assert editor.text == bench.session.text() == "It rained. It stopped."
        await bench.press("ctrl+y", "ctrl+end", "ctrl+shift+home", "y")
        assert editor.text == "y"


async def test_a_click_focuses_a_branch_and_its_words_can_be_selected(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        pane = bench.screen.grid.shown[2]
        await bench.pilot.click(pane, offset=(3, 2))
        assert bench.screen.grid.current == 2 and pane.has_focus
        start = pane.content_region.offset + Offset(0, 1)
        await bench.pilot.mouse_down(offset=start)
        await bench.pilot.hover(offset=start + Offset(6, 0))
        await bench.pilot.mouse_up(offset=start + Offset(6, 0))
        assert pane.selected and pane.selected in pane.text
        await bench.press("ctrl+c")
        assert bench.app.clipboard == pane.selected


async def test_a_key_in_the_footer_can_be_clicked(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        at = visible(bench).splitlines()[-1].index("write")
        await bench.pilot.click(offset=(at, 39))
        assert bench.session.round is not None


async def test_whether_words_are_saved_stays_beside_a_long_line(open_bench: OpenBench) -> None:
    async with open_bench(size=(80, 24)) as bench:
        line = bench.screen.status_line
        line.left, line.right = (f"no model: {'漢字' * 20}.gguf: no such file",), ("saved", "3 words")
        shown = line.render().plain
        assert shown.endswith("… saved ") and cell_len(shown) in (79, 80)
