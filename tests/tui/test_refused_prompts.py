"""A prompt that cannot open says why, and text typed for it runs no command; every dialog has help."""

from __future__ import annotations

from typing import Any

import pytest
from textual.screen import Screen
from textual.widgets import HelpPanel, Input

from srbwriter.story.model import Blocked, ReadOnly
from srbwriter.tui.dialogs.ask import Ask, AskWords, Refusal
from srbwriter.tui.dialogs.base import Page
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.prose import Prose
from srbwriter.tui.story.find import FindBar
from srbwriter.tui.story.side_panel import SidePanel
from srbwriter.tui.tree.screen import TreeScreen
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened, visible


async def on_folded_row(bench: Bench) -> TreeScreen:
    """The tree, with the cursor on a row of folded branches."""
    await bench.write()
    await bench.press("1", "f3")
    tree: TreeScreen = await opened(bench, TreeScreen)
    tree.view.go(next(at for at, row in enumerate(tree.view.rows) if row.folded))
    return tree


def state(bench: Bench) -> object:
    """All of the story that a command of the tree could change."""
    story = bench.session.story
    nodes = list(story.reading_order())
    return nodes, story.current, [story.node(node).marks for node in nodes], story.bin()


def is_typed_into(screen: Screen[Any]) -> bool:
    focused = screen.focused
    if not isinstance(screen, Page) or isinstance(screen, Picker | FindBar):
        return False  # the write screen; lists and find have a line of their own, and always open
    return isinstance(focused, Input) or (isinstance(focused, Prose) and not focused.read_only)


@pytest.mark.parametrize("command", ["edit_pick", "author_note"])
async def test_letters_for_a_prompt_that_did_not_open_leave_story_and_branches(
    command: str, open_bench: OpenBench
) -> None:
    async with open_bench(started=12) as bench:
        bench.session.story.read_only = ReadOnly(Blocked.DAMAGED, "It is damaged.")
        before, texts = state(bench), bench.texts()
        bench.screen.run(command)
        await bench.settle()
        if isinstance(bench.app.screen, Refusal):
            assert "damaged" in visible(bench)
        else:
            assert is_typed_into(bench.app.screen), "neither a prompt nor why there is none"
        await bench.press(*"kxk ")
        assert isinstance(bench.app.screen, Ask | Refusal)
        assert (state(bench), bench.texts()) == (before, texts)
        await bench.press("escape")
        assert bench.app.screen is bench.screen


async def test_a_lorebook_without_entries_says_so(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        bench.screen.run("lore")
        await opened(bench, SidePanel)
        await bench.press(*"kndtl")
        await opened(bench, Refusal)
        assert "There are no entries yet; n makes one." in visible(bench)


@pytest.mark.parametrize("command", ["tree", "lore", "settings", "read", "log", "find"])
async def test_help_is_shown_beside_every_dialog_and_goes_again(command: str, open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run(command)
        await bench.settle()
        here = bench.app.screen
        await bench.press("f1")
        assert here.query(HelpPanel)
        await bench.press("f1")
        assert not here.query(HelpPanel) and bench.app.screen is here


async def test_where_text_is_typed_a_question_mark_is_a_character(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        tree = await on_folded_row(bench)
        tree.view.go(1)
        await bench.press("n", *"Why?")
        assert (await opened(bench, AskWords)).query_one(Input).value == "Why?"
