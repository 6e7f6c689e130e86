"""What cannot be changed in the tree says why."""

from __future__ import annotations

from srbwriter.tui.tree.screen import TreeScreen
from tests.tui.conftest import OpenBench
from tests.tui.steps import opened

MARKS = "b", "x"


async def test_the_beginning_and_folded_branches_say_why_nothing_is_done(open_bench: OpenBench) -> None:
    async with open_bench("It rained.") as bench:
        story = bench.session.story
        story.visit(story.add(story.current, [f"It went on {n}." for n in range(12)])[0])
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("pagedown", "up")
        assert tree.view.row.folded
        for key in MARKS:
            bench.app.said.clear()
            await bench.press(key)
            assert "space shows them" in bench.said, key
        await bench.press("pageup")
        for key in MARKS:
            bench.app.said.clear()
            await bench.press(key)
            assert "no text to change" in bench.said, key
