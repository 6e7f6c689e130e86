"""Screens above the write screen: nothing typed into one is lost, and each is left once."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual import events
from textual.widgets import HelpPanel

from srbwriter.story import ROOT, Story, library
from srbwriter.tui.dialogs.ask import Ask, Confirm, Sheet
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.prose import Prose
from srbwriter.tui.story.context_view import ContextView
from srbwriter.tui.tree.screen import TreeScreen
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import opened, visible


def request(bench: Bench) -> str | None:
    return bench.session.story.settings(ROOT).request


async def test_escape_asks_before_it_drops_what_was_typed(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        bench.screen.run("context")
        context = await opened(bench, ContextView)
        await bench.press("e")
        await opened(bench, Sheet)
        await bench.press("escape")
        assert bench.app.screen is context and not request(bench), "it was only read"
        await bench.press("e")
        sheet = await opened(bench, Sheet)
        before = sheet.query_one(Prose).text
        await bench.press(*" Slowly.", "escape")
        await opened(bench, Confirm)
        await bench.press("x", "escape")  # neither is an answer that closes the sheet
        assert bench.app.screen is sheet
        assert sheet.query_one(Prose).text == f"{before} Slowly."
        await bench.press("escape", "s")
        assert bench.app.screen is context
        assert request(bench) == f"{before} Slowly."
        await bench.press("e")
        await bench.press(*" Now.", "escape", "d")
        assert bench.app.screen is context
        assert request(bench) == f"{before} Slowly.", "it is dropped on purpose"


async def test_who_types_at_the_first_start_writes_the_story(open_bench: OpenBench) -> None:
    async with open_bench("") as bench:
        await opened(bench, Picker)
        await bench.press(*"It was late.")
        assert bench.app.screen is bench.screen and bench.screen.editor.text == "It was late."


async def test_a_story_of_the_writers_own_is_opened_when_it_is_chosen(
    open_bench: OpenBench, tmp_path: Path
) -> None:
    file = tmp_path / "Garden.srbw"
    Story.create(file, "Zzyzx Garden").close()
    library.remember(file)
    async with open_bench("") as bench:
        await opened(bench, Picker)
        await bench.press("up", "enter")
        await bench.pilot.pause()
        assert bench.app.session.story.file == file


async def test_a_screen_is_left_once_however_quickly_its_keys_come(open_bench: OpenBench) -> None:
    async with open_bench(started=12) as bench:
        await bench.press("1", "f3")
        screen = await opened(bench, TreeScreen)
        for key in ("slash", "escape"):  # both reach the tree before the prompt is there to take the second
            screen.post_message(events.Key(key, None))
        await opened(bench, Ask)
        await bench.press("escape")
        assert bench.app.screen is screen
        await bench.press("slash", "escape", "escape")
        assert bench.app.screen is bench.screen


async def test_the_footer_is_that_of_the_dialog_with_the_keys(open_bench: OpenBench) -> None:
    async with open_bench(started=12) as bench:
        assert " part" in visible(bench)
        for command, label in (("settings", "usual value"), ("find", "next")):
            await bench.choose(command)
            assert label in visible(bench) and " part" not in visible(bench), command
            await bench.press("escape")
            assert " part" in visible(bench), command


async def test_help_begins_with_the_keys_of_this_program(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        await bench.press("f1")
        rows = visible(bench).splitlines()
        assert any("tab switch" in row for row in rows[:12]) and any("^n write" in row for row in rows)


async def test_a_sheet_has_room_for_its_text_in_the_smallest_window(open_bench: OpenBench) -> None:
    async with open_bench(size=(40, 12), started=12) as bench:
        await bench.choose("bans")
        sheet = await opened(bench, Sheet)
        area = sheet.query_one(Prose)
        assert area.region.height >= 3
        assert sheet.query_one(".box").region.contains_region(area.region)


async def test_the_frame_is_switched_and_its_request_edited_where_the_prompt_is_shown(
    open_bench: OpenBench,
) -> None:
    async with open_bench(n=2) as bench:
        story = bench.session.story
        await bench.press("f8")
        await opened(bench, ContextView)
        assert "this model continues text" in visible(bench)
        await bench.press("f")
        assert "Continue the story that your answer begins with" in visible(bench)
        await bench.press("e")
        sheet = await opened(bench, Sheet)
        prose = sheet.query_one(Prose)
        prose.replace(0, len(prose.text), "Write about a harbour.")
        await bench.press("ctrl+s")
        await opened(bench, ContextView)
        assert "Write about a harbour." in visible(bench)
        assert (story.settings(ROOT).request, story.settings(ROOT).framed) == ("Write about a harbour.", True)
        await bench.press("e")
        sheet = await opened(bench, Sheet)
        prose = sheet.query_one(Prose)
        prose.replace(0, len(prose.text), "")
        await bench.press("ctrl+s")
        assert story.settings(ROOT).request is None
        await bench.press("f")
        assert story.settings(ROOT).framed is None, "what the model has anyway is not written down"
        await bench.press("escape")
        assert bench.session.text() == "It rained."


@pytest.mark.parametrize("command", ["tree", "settings", "find"])
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
        await bench.choose("rename_story")
        await bench.press(*"Why?", "enter")
        assert bench.session.story.title == "Why?"
