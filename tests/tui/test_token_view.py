"""The view of a text token by token while that text is written anew."""

from __future__ import annotations

from textual.widgets import Static

from srbwriter.tui.dialogs.tokens import TokenView
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened, started


async def looked(bench: Bench, view: TokenView, count: int) -> None:
    """Let the view see the branch, which has so many tokens now."""
    branch = bench.session.round.branches[0]
    while view._text is None or view._coming is not None or len(view._text.tokens) != count:
        assert len(branch.buffer.ids) == count
        view._look()
        await bench.pilot.pause()


async def tokens_of_the_first(bench: Bench) -> TokenView:
    """The list of the tokens of a branch that has ended, once all of them stand there."""
    await started(bench)
    bench.session.stop_all()
    await bench.settle()
    await bench.choose("tokens")
    view: TokenView = await opened(bench, TokenView)
    await looked(bench, view, len(bench.session.round.branches[0].buffer.ids))
    return view


async def test_the_chosen_token_is_in_view_where_there_is_room_for_few(open_bench: OpenBench) -> None:
    async with open_bench(size=(42, 12)) as bench:
        view = await tokens_of_the_first(bench)
        bench.engine_until(lambda: view._others() is not None)
        view._look()
        others, shown = view._others(), set[str]()
        for _ in others or ():
            await bench.press("down")
            shown.add(str(view.query_one("#here", Static).content).partition("▸ ")[2].partition("  ")[0])
        assert others is not None and {one.shown for one in others} == shown
