"""What the model is told beside the story: how deep the note stands, and secondary keys of the lorebook."""

from __future__ import annotations

from textual.widgets import Input, OptionList, TextArea

from srbwriter.story import ROOT
from srbwriter.story.model import LoreEntry, Settings
from srbwriter.tui.screens.ask import Confirm
from srbwriter.tui.screens.lorebook import Lorebook
from srbwriter.tui.screens.sheet import NoteSheet
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import answer, opened, visible


async def test_the_note_is_told_so_many_lines_from_the_end(open_bench: OpenBench) -> None:
    async with open_bench("It rained.\n" * 9) as bench:
        bench.screen.run("author_note")
        sheet = await opened(bench, NoteSheet)
        await bench.press(*"Slow.", "tab", *"6", "ctrl+s")
        assert bench.app.screen is bench.screen
        told = bench.session.story.own_settings(ROOT)
        assert (told.author_note, told.author_note_depth) == ("Slow.", 6)
        bench.screen.run("author_note")
        sheet = await opened(bench, NoteSheet)
        assert sheet.query_one(Input).value == "6"
        sheet.query_one(Input).value = ""
        await bench.press("escape")
        await opened(bench, Confirm)  # a changed depth is a change
        await bench.press("s")
        assert bench.session.story.own_settings(ROOT).author_note_depth is None


async def test_what_is_no_depth_is_refused_and_nothing_is_lost(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("author_note")
        sheet = await opened(bench, NoteSheet)
        sheet.query_one(TextArea).text = "Slow."
        for wrong in ("two", "-1", "3.5", "100000"):
            sheet.query_one(Input).value = wrong
            await bench.press("ctrl+s")
            assert bench.app.screen is sheet and sheet.query_one(TextArea).text == "Slow.", wrong
            assert bench.session.story.own_settings(ROOT).author_note is None


async def test_secondary_keys_are_given_and_how_they_count(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        story = bench.session.story
        story.put_settings(ROOT, Settings(lore=[LoreEntry("a", "Quay", "Wet.", keys=["quay"])]))
        bench.screen.run("lore")
        await bench.pilot.pause()
        bench.app.screen.query_one(OptionList).focus()
        await bench.press("l")  # there are none yet
        assert story.own_settings(ROOT).lore[0].logic == "any"
        await bench.press("s")
        await answer(bench, "night, fog")
        assert story.own_settings(ROOT).lore[0].secondary == ["night", "fog"]
        assert "quay and any of: night, fog" in visible(bench)
        for logic, words in (("all", "and all of"), ("not_any", "but none of"), ("not_all", "but not all")):
            await bench.press("l")
            assert story.own_settings(ROOT).lore[0].logic == logic and words in visible(bench)
        await bench.press("l")
        assert story.own_settings(ROOT).lore[0].logic == "any"


async def test_a_name_with_a_comma_is_one_key_and_stays_one(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        story = bench.session.story
        bench.screen.run("lore")
        await opened(bench, Lorebook)
        await bench.press("n")
        await answer(bench, "Smith, John")
        await bench.press(*"Tall.", "ctrl+s")
        assert '"Smith, John"' in visible(bench)
        await bench.press("k")
        asked = bench.app.screen.query_one(Input)
        assert asked.value == '"Smith, John"'
        await answer(bench, f"{asked.value}, mill, /far,? away/i")
        assert story.own_settings(ROOT).lore[0].keys == ["Smith, John", "mill", "/far,? away/i"]
        await bench.press("k", "enter")
        assert story.own_settings(ROOT).lore[0].keys == ["Smith, John", "mill", "/far,? away/i"]
