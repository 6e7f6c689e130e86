"""A story that is opened again shows the cursor where it was left, and branches with no pane chosen."""

from __future__ import annotations

from tests.tui.conftest import OpenBench


async def test_the_cursor_stands_where_it_was_and_what_is_typed_goes_there(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write(8)
        await bench.press("N", "o", "home")
        bench.screen.keep_view()
        bench.session.close()
    async with open_bench("") as bench:
        await bench.settle()
        assert bench.screen.unchosen
        await bench.press("x", "1")
        assert bench.screen.editor.text == "x1It rained.No"
