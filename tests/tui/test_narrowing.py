"""Looking for a knob or a command by a word, presets with what they turn, and themes in their own colours."""

from __future__ import annotations

import pytest
from textual.widgets import Input, Static

from srbwriter.tui import knobs
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.help import Help
from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.themes import files, read
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened, visible


def test_every_knob_has_a_name_for_people_and_no_other_thing_has_one() -> None:
    groups = {(knob.group, knob.title) for knob in knobs.KNOBS}
    assert len(groups) == len(knobs.KNOBS), "two knobs of a group go by one name"


@pytest.mark.full
async def test_knobs_are_narrowed_by_either_name_and_turned_there(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(80, 24)) as bench:
        bench.screen.run("knobs")
        screen = await opened(bench, Knobs)
        assert "Temperature" in visible(bench) and "temperature" in visible(bench)
        await bench.press("slash", *"nucleus", "enter")
        assert screen.knob is not None and screen.knob.name == "top_p"
        assert "Mirostat" not in visible(bench)
        before = bench.session.sampling.top_p
        await bench.press("left")
        assert bench.session.sampling.top_p < before
        await bench.press("slash", *"nothing like it", "enter", "left", "backspace")
        assert screen.knob is None
        await bench.press("slash", "escape")
        assert "more settings" in visible(bench), "the list is as it was"
        assert bench.app.screen is screen, "escape closed more than the line"
        await bench.press("escape")
        assert bench.app.screen is bench.screen


@pytest.mark.full
async def test_a_ladder_that_cannot_be_read_is_asked_for_again(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("knobs")
        await opened(bench, Knobs)
        await bench.press("slash", *"temperature", "enter", "l", *"0.4", "enter")
        asked: Ask = await opened(bench, Ask)
        assert asked.query_one(Input).value == "0.4" and "two values" in visible(bench)
        await bench.press(*"0.4 1.2", "enter")
        await opened(bench, Knobs)
        assert bench.session.sweep == ("temperature", 0.4, 1.2)


@pytest.mark.full
async def test_help_is_narrowed_by_what_a_key_does(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("help")
        screen = await opened(bench, Help)
        await bench.press("slash", *"lorebook")
        shown = visible(bench)
        assert "Edit the entries that the model reads" in shown and "Pick a branch by number" not in shown
        await bench.press("escape")
        assert all(section.display for section in screen.query(".commands")) and bench.app.screen is screen
        await bench.press("q")
        assert bench.app.screen is bench.screen


async def test_presets_say_what_they_turn(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("knobs")
        await opened(bench, Knobs)
        await bench.press("p", *"wild")
        picker = await opened(bench, Picker)
        said = str(picker.query_one("#picker-preview", Static).content)
        assert "Unlikely turns" in said and "Temperature 1.4" in said and "Min p 0.1" in said


async def test_a_list_says_when_nothing_matches(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("model")
        picker = await opened(bench, Picker)
        await bench.press(*"zzz")
        assert "Nothing matches “zzz”" in visible(bench)
        await bench.press("enter", "down", "enter")
        assert bench.app.screen is picker, "there is nothing that enter could take"
        await bench.press(*["backspace"] * 3)
        assert "storyteller" in visible(bench) and "Nothing matches" not in visible(bench)


@pytest.mark.full
async def test_a_theme_is_seen_in_its_own_colours_while_it_is_chosen(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(80, 24)) as bench:
        bench.screen.run("theme")
        picker = await opened(bench, Picker)
        await bench.press(*"paper")
        assert bench.app.theme == "paper" and "enter keeps it" in visible(bench)
        assert picker.styles.background.a == 0
        box = picker.query_one(".box").region
        assert box.x >= bench.app.size.width * 0.4, "the list lies over what is to be seen"
        left = bench.app.screen._compositor.render_strips()[5].crop(0, 10)
        backgrounds = {s.style.bgcolor.name for s in left if s.style and s.style.bgcolor}
        assert backgrounds == {str(read(files()["paper"]).background).lower()}
