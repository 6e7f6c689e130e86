"""Cutting, joining and moving nodes in the tree."""

from __future__ import annotations

import pytest

from srbwriter.story import ROOT
from srbwriter.tui.screens.tree import SplitAt, TreeScreen
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened


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


async def test_nothing_is_split_at_the_beginning_of_a_node_nor_is_the_root(open_bench: OpenBench) -> None:
    async with open_bench("It rained.") as bench:
        bench.screen.run("tree")
        tree = await opened(bench, TreeScreen)
        await bench.press("s")
        asked = await opened(bench, SplitAt)
        await bench.press("enter")
        assert bench.app.screen is asked
        await bench.press("escape", "home", "s", "M", "left_square_bracket")
        assert bench.app.screen is tree and len(list(bench.session.story.reading_order())) == 2
        assert bench.app.messages.all[-1].words == "This is the beginning of the story, which has no words."


MARKS = "b", "greater_than_sign", "n", "t", "number_sign", "u", "m", "d", "x"


@pytest.mark.full
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
            assert "space shows them" in bench.app.messages.all[-1].words, key
        await bench.press("home")
        for key in MARKS:
            bench.app.messages.all.clear()
            await bench.press(key)
            assert "has no words" in bench.app.messages.all[-1].words, key


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
