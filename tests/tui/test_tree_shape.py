"""Cutting, joining and moving nodes in the tree."""

from __future__ import annotations

from srbwriter.story import ROOT
from srbwriter.tui.actions.tree import revisit
from srbwriter.tui.tree.screen import SplitAt, TreeScreen
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened, visible


async def test_a_node_is_split_where_the_cursor_stands_and_joined_again(open_bench: OpenBench) -> None:
    async with open_bench("It rained.") as bench:
        story = bench.session.story
        node = story.current
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("s")
        await opened(bench, SplitAt)
        await bench.press("right", "right", "enter")
        assert bench.app.screen is tree
        [rest] = story.children(node)
        assert [story.node(each).text for each in (node, rest)] == ["It", " rained."]
        assert tree.view.row.node == rest
        await bench.press("M")
        assert story.node(node).text == "It rained." and not story.children(node)
        await bench.press("s")
        asked = await opened(bench, SplitAt)
        await bench.press("enter")
        assert bench.app.screen is asked, "nothing is split at the beginning of a node"
        await bench.press("escape", "home", "s", "M", "left_square_bracket")
        assert bench.app.screen is tree and len(list(story.reading_order())) == 2
        assert bench.last_said == "This is the beginning of the story; it has no text to change."


MARKS = "b", "n", "t", "number_sign", "u", "x"


async def test_the_beginning_and_folded_branches_say_why_nothing_is_done(open_bench: OpenBench) -> None:
    async with open_bench("It rained.") as bench:
        story = bench.session.story
        story.visit(story.add(story.current, [f"It went on {n}." for n in range(12)])[0])
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("end", "up")
        assert tree.view.row.folded
        for key in ("M", *MARKS):
            bench.app.messages.all.clear()
            await bench.press(key)
            assert "space shows them" in visible(bench), key
            if bench.app.screen is not tree:  # text for a prompt that did not open is ignored
                await bench.press("escape")
        await bench.press("home")
        for key in MARKS:
            bench.app.messages.all.clear()
            await bench.press(key)
            assert "no text to change" in visible(bench), key
            if bench.app.screen is not tree:
                await bench.press("escape")


async def test_a_node_moves_among_its_siblings_and_undo_takes_that_back(open_bench: OpenBench) -> None:
    async with open_bench("") as bench:
        story = bench.session.story
        first, second, third = story.add(ROOT, ["One.", "Two.", "Three."])
        story.visit(second)
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("left_square_bracket")
        assert story.children(ROOT) == [second, first, third] and tree.view.row.node == second
        await bench.press("left_square_bracket")  # it is the first
        await bench.press("right_square_bracket", "right_square_bracket", "right_square_bracket")
        assert story.children(ROOT) == [first, third, second]
        await bench.press("escape")
        bench.session.undo()
        assert story.children(ROOT) == [first, second, third]


async def test_a_node_is_cut_and_moved_below_another_with_all_that_follows_it(open_bench: OpenBench) -> None:
    async with open_bench("It rained.") as bench:
        story = bench.session.story
        first = story.current
        [scene] = story.add(first, [" She ran."])
        [after] = story.add(scene, [" Home."])
        [other] = story.add(ROOT, ["It snowed."])
        revisit(bench.screen, after)
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("up", "v")
        assert "Press c on the passage to move first." in bench.last_said
        assert tree.view.row.node == scene
        await bench.press("c", "c")
        assert tree.view.cut is None, "a second cut leaves the node where it is"
        await bench.press("c", "v")
        assert "cannot be moved below itself" in bench.last_said
        while tree.view.row.node != other:
            await bench.press("up" if tree.view.cursor else "down")
            if tree.view.row.folded:
                await bench.press("space")
                tree.view.go(next(n for n, row in enumerate(tree.view.rows) if row.node == other))
        await bench.press("v")
        assert story.children(other) == [scene] and story.text(after) == "It snowed. She ran. Home."
        assert tree.view.row.node == scene and tree.view.cut is None
        await bench.press("escape")
        assert bench.screen.editor.text == "It snowed. She ran. Home."
        await bench.press("ctrl+z")
        assert bench.screen.editor.text == "It rained. She ran. Home."
        assert bench.last_said == "Undid: move."
