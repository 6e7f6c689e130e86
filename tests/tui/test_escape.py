"""Escape never leads into the story, where the keys that follow would be typed as words."""

from __future__ import annotations

import pytest
from textual.events import Paste

from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench


def among_branches(bench: Bench) -> bool:
    return bench.app.screen is bench.screen and isinstance(bench.screen.focused, BranchPane)


async def test_among_the_branches_it_stops_what_runs_and_then_does_nothing(open_bench: OpenBench) -> None:
    async with open_bench("The rain.", started=5) as bench:
        for _ in range(4):
            await bench.press("escape")
            assert among_branches(bench)
            assert not any(branch.live for branch in bench.session.round.branches)
        await bench.press("r", "k", "s")  # keys of branches, and no words
        bench.session.keep()
        assert bench.session.text() == "The rain."


async def test_in_the_story_it_leads_to_the_branches_and_stops_none(open_bench: OpenBench) -> None:
    async with open_bench("The rain.") as bench:
        await bench.press("escape", "escape", "x", "j")  # before any branch is written
        assert among_branches(bench)
        bench.session.keep()
        assert bench.session.text() == "The rain."
        await bench.write(5)
        assert bench.screen.editor.has_focus
        await bench.press("escape")
        assert among_branches(bench)
        assert all(branch.live for branch in bench.session.round.branches)


async def test_tab_and_a_click_lead_into_the_story_and_the_badge_says_where_keys_go(
    open_bench: OpenBench,
) -> None:
    async with open_bench("The rain.", size=(160, 40)) as bench:
        line = bench.screen.status_line
        assert line.render().plain.startswith(" STORY ")
        await bench.write(5)
        await bench.press("escape")
        bench.screen.flush_slowly()
        assert ("switch", "tab", "story") in bench.screen.key_line.entries
        await bench.press("tab")
        assert bench.screen.editor.has_focus
        bench.screen.flush_slowly()
        assert ("switch", "tab", "branches") in bench.screen.key_line.entries
        await bench.press("escape")
        assert line.render().plain.startswith(" BRANCH 1 ")
        for key, badge in (("right", "BRANCH 2"), ("f2", "PROMPT"), ("escape", "BRANCH 2")):
            await bench.press(key)
            assert line.render().plain.startswith(f" {badge} ")
        await bench.pilot.click("#story")
        assert bench.screen.editor.has_focus


@pytest.mark.parametrize("way", ["tab", "ctrl+f"])
async def test_a_story_that_was_hidden_is_shown_before_it_has_the_keys(
    way: str, open_bench: OpenBench
) -> None:
    async with open_bench("The rain.", started=5) as bench:
        await bench.choose("single")
        editor = bench.screen.editor
        assert not editor.size
        editor.focus()
        await bench.press("x")
        assert not editor.has_focus and bench.screen.editor.text == "The rain."
        await bench.press(way)
        assert editor.size.height > 1
        assert editor.has_focus or way == "ctrl+f"


async def test_a_paste_into_the_story_is_not_said_to_be_lost(open_bench: OpenBench) -> None:
    async with open_bench("The rain.") as bench:
        await bench.press("ctrl+end")
        bench.app.post_message(Paste(" It fell\r\non."))
        await bench.settle()
        assert bench.screen.editor.text == "The rain. It fell\non."
        assert not bench.app.said
