"""A story that is opened again shows places and choices as they were left, and steering keeps them."""

from __future__ import annotations

from typing import cast

from srbwriter.session.ordering import AS_DRAWN
from srbwriter.tui.write.view import View

from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench


async def leave(bench: Bench) -> None:
    bench.screen.keep_view()
    bench.session.close()


async def test_places_and_order_stay_while_an_engine_takes_the_branches_up(open_bench: OpenBench) -> None:
    async with open_bench(size=(120, 24)) as bench:
        await bench.write(64)
        await bench.settle()
        bench.screen.grid.order((2, 0, 3, 1), bench.session.round.identity)
        await bench.press("right", "right", "d")
        await bench.settle()
        pane = cast(BranchPane, bench.screen.focused)
        left, order, take = pane.index, bench.screen.grid.shown_order, pane.take
        assert take and order != tuple(range(4))
        bench.session.steer(order[0], "kill")
        await bench.settle()
        await leave(bench)
    async with open_bench("", size=(120, 24)) as bench:
        await bench.settle()
        pane = cast(BranchPane, bench.screen.focused)
        assert (pane.index, pane.take, bench.screen.grid.shown_order) == (left, take, order)
        await bench.press("r")
        await bench.press(*["left"] * 2)
        other = cast(BranchPane, bench.screen.focused)
        assert other is not pane and bench.screen.grid.shown_order == order
        await bench.press("e")
        await bench.tokens(60)
        assert "↓" not in other.head
        assert bench.screen.grid.shown_order == order


async def test_the_story_has_the_keys_again_and_digits_are_typed(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write(8)
        await bench.press("N", "o", "home")
        await leave(bench)
    async with open_bench("") as bench:
        await bench.settle()
        await bench.press("1")
        assert bench.screen.editor.text == "1It rained.No"


async def test_one_large_branch_is_large_again(open_bench: OpenBench) -> None:
    async with open_bench(started=8) as bench:
        await bench.press("right", "f9")
        await leave(bench)
    async with open_bench("") as bench:
        await bench.settle()
        assert [pane.number for pane in bench.screen.grid.shown] == [2]
        assert bench.screen.focused is bench.screen.grid.panes[1]


KEPT = View(3, "branch", 1, AS_DRAWN, (1, 0), True, ((0, 4),))
