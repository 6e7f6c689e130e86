"""Looking for a knob or a command by a word, presets with what they turn, and themes in their own colours."""

from __future__ import annotations

from textual.widgets import Static

from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.themes import files, read
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened, visible


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


async def test_presets_say_what_they_turn(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.screen.run("knobs")
        await opened(bench, Knobs)
        await bench.press("p", *"wild")
        picker = await opened(bench, Picker)
        said = str(picker.query_one("#picker-preview", Static).content)
        assert "Unlikely turns" in said and "Temperature 1.4" in said and "Min p 0.1" in said


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
