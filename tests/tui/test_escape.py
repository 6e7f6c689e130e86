"""Escape never moves the focus: what follows is words where words were, and commands where commands were."""

from __future__ import annotations

from textual.events import Paste

from srbwriter.tui.write.branch_pane import BranchPane
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import footer


def among_branches(bench: Bench) -> bool:
    return bench.app.screen is bench.screen and isinstance(bench.screen.focused, BranchPane)


async def test_among_the_branches_it_stops_what_runs_and_then_does_nothing(open_bench: OpenBench) -> None:
    async with open_bench("The rain.", started=5) as bench:
        for _ in range(4):
            await bench.press("escape")
            assert among_branches(bench)
            assert not any(branch.live for branch in bench.session.round.branches)
        for key in "rks":  # keys of branches, and no words
            await bench.press(key)
        bench.session.keep()
        assert bench.session.text() == "The rain."


async def test_in_the_story_it_stops_what_runs_and_chooses_no_branch(open_bench: OpenBench) -> None:
    async with open_bench("The rain.") as bench:
        await bench.write(5)
        await bench.press("1")
        text = bench.screen.editor.text
        await bench.tokens(3)
        await bench.press("escape", "escape", *" were red seeds.")
        assert bench.screen.editor.text == text + " were red seeds."
        assert not any(branch.live for branch in bench.session.round.branches)
        assert len(bench.session.round.branches) == 4 and not bench.screen.on_branch


async def test_tab_and_a_click_lead_into_the_story_and_the_badge_says_where_keys_go(
    open_bench: OpenBench,
) -> None:
    async with open_bench("The rain.", size=(160, 40)) as bench:
        line = bench.screen.status_line
        assert line.render().plain.startswith(" STORY ")
        await bench.write(5)
        await bench.press("tab")
        await bench.press("tab")
        assert bench.screen.editor.has_focus
        assert "tab switch" in footer(bench)
        await bench.press("tab")
        assert line.render().plain.startswith(" BRANCH 1 ")
        for key, badge in (
            ("right", "BRANCH 2"), ("f2", "SETTINGS"), ("escape", "BRANCH 2"), ("ctrl+f", "FIND"),
            ("escape", "BRANCH 2"), ("ctrl+g", "MENU"), ("escape", "BRANCH 2"), ("f3", "TREE"),
            ("ctrl+g", "MENU"), ("escape", "TREE"), ("escape", "BRANCH 2"),
        ):  # fmt: skip
            await bench.press(key)
            assert line.render().plain.startswith(f" {badge} ")
        await bench.pilot.click("#story")
        assert bench.screen.editor.has_focus


async def test_a_paste_into_the_story_is_not_said_to_be_lost(open_bench: OpenBench) -> None:
    async with open_bench("The rain.") as bench:
        await bench.press("ctrl+end")
        bench.app.post_message(Paste(" It fell\r\non."))
        await bench.settle()
        assert bench.screen.editor.text == "The rain. It fell\non."
        assert not bench.app.said
