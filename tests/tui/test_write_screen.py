"""The write screen: branches run, are picked, and the story goes on."""

from __future__ import annotations

from tests.tui.conftest import OpenBench, write_on


async def test_markup_in_a_branch_is_plain_text(open_bench: OpenBench) -> None:
    async with open_bench(n=1) as bench:
        await bench.write(1)
        write_on(bench, " [/bold] [red]danger[")
        await bench.tokens(1)
        pane = bench.screen.grid.shown[0]
        assert "[/bold] [red]danger[" in "".join(pane.render_line(y).text for y in range(pane.size.height))


async def test_painting_goes_on_without_the_node_of_a_refused_transaction(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.write()
        nodes = [track.nodes for track in bench.session.round.tracks]
        for track in bench.session.round.tracks:
            track.nodes = [(4711, 0)]
        bench.screen.status_line.right = ()
        await bench.settle()
        assert bench.screen.status_line.right
        for track, before in zip(bench.session.round.tracks, nodes, strict=True):
            track.nodes = before


async def test_the_cursor_stands_where_something_was_undone(open_bench: OpenBench) -> None:
    async with open_bench(text="It rained.\n\nNobody came.") as bench:
        bench.screen.editor.move_to(len("It rained"))
        await bench.press(*" hard")
        bench.session.keep()
        await bench.press("ctrl+z")
        assert bench.screen.editor.text == "It rained.\n\nNobody came."
        assert bench.screen.editor.cursor == len("It rained")
        await bench.press("ctrl+y")
        assert bench.screen.editor.cursor == len("It rained hard")
        await bench.press("ctrl+z", "ctrl+z", "ctrl+z")  # more often than there is anything to take back
        await bench.press("!")
        assert bench.session.text().endswith("!")
