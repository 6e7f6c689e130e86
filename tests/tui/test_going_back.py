"""The branches on the screen are those of where the writer stands."""

from __future__ import annotations

from tests.tui.conftest import OpenBench


async def test_after_an_undone_pick_its_siblings_can_be_picked(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        second = bench.texts()[1]
        await bench.on_panes()
        await bench.press("1")
        await bench.tokens(6)
        await bench.press("u")
        assert bench.session.text() == "It rained."
        assert bench.screen.grid.panes[1].text == second
        await bench.press("2")
        assert bench.session.text() == "It rained." + second


async def test_words_typed_beside_branches_stay_when_one_is_picked(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        second = bench.texts()[1]
        bench.screen.editor.focus()
        await bench.press(*" Zebra.")
        await bench.on_panes()
        await bench.press("2")
        assert bench.session.text() == "It rained. Zebra." + second


async def test_back_at_the_beginning_the_panes_are_empty(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        await bench.on_panes()
        await bench.press("P")
        assert bench.session.text() == ""
        assert all(pane.text == "" for pane in bench.screen.grid.panes)
