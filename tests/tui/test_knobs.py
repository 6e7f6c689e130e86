"""Knobs: what is shown can be typed again, steps stay in range, presets are read whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Static

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import validate
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.session.sampling import Usual, Variety
from srbwriter.tui import knobs
from srbwriter.tui.dialogs.knobs import Knobs as KnobsScreen
from srbwriter.tui.knobs import KNOBS, Setup
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened, visible

USUAL = Usual(Sampling(), Stop(), Variety(), 1)
BY_NAME = {knob.name: knob for knob in KNOBS}


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_what_is_shown_can_be_typed_again(knob: knobs.Parameter) -> None:
    value = knob.default
    assert knobs.parse(knob, knobs.shown(knob, value)) == value


@given(st.sampled_from([knob for knob in KNOBS if knob.kind in ("int", "float")]), st.integers(-500, 500))
def test_steps_stay_in_range(knob: knobs.Parameter, steps: int) -> None:
    value = knobs.stepped(knob, knob.default, steps)
    knob.check(value)


def test_texts_can_hold_newlines_and_quotes() -> None:
    stop = BY_NAME["stop"]
    value = ("\n\n", '"', "###")
    assert knobs.parse(stop, knobs.shown(stop, value)) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("temperature", "hot"), ("top_k", "1.5"), ("stop", "no quotes"), ("ignore_eos", "maybe")],
)
def test_what_cannot_be_read_names_the_knob(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        knobs.parse(BY_NAME[name], text)


@pytest.mark.parametrize("file", knobs.presets().values(), ids=lambda file: file.stem)
def test_every_shipped_preset_is_one_the_engine_takes(file: Path) -> None:
    setup = knobs.read_preset(file, Setup(Sampling(temperature=1.9), Stop(max_tokens=7)), USUAL)
    validate(setup.sampling)
    assert setup.stop.max_tokens == 7
    assert setup.sampling.temperature != 1.9


@pytest.mark.parametrize("text", ["= =", "unknown = 1", "temperature = -5"])
def test_a_broken_preset_names_itself_or_the_knob(text: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match="broken|temperature"):
        knobs.read_preset(file, Setup(Sampling(), Stop()), USUAL)


async def test_few_settings_come_first_and_more_shows_the_others(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(80, 24)) as bench:
        bench.screen.run("knobs")
        screen = await opened(bench, KnobsScreen)
        names = [knob.name for knob in screen._rows if isinstance(knob, knobs.Parameter)]
        assert names[: len(knobs.FIRST)] == [knob.name for knob in knobs.FIRST]
        assert "more settings" in visible(bench) and "Mirostat" not in visible(bench)
        for _ in names:
            if screen.knob is not None:
                await bench.press("down")
        await bench.press("enter")
        known = [knob.name for knob in screen._rows if isinstance(knob, knobs.Parameter)]
        assert sorted(known) == sorted(BY_NAME), "each setting is listed once"
        await bench.press("left")
        assert len([row for row in screen._rows if isinstance(row, knobs.Parameter)]) == len(names)


async def test_a_setting_that_was_changed_is_listed_without_opening_more(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        bench.session.sampling = Sampling(mirostat=2)
        bench.screen.run("knobs")
        await opened(bench, KnobsScreen)
        assert "* Mirostat" in visible(bench)


async def test_the_number_of_branches_is_changed_there(open_bench: OpenBench) -> None:
    async with open_bench() as bench:
        before = bench.session.n
        bench.screen.run("knobs")
        await opened(bench, KnobsScreen)
        await bench.press("home", "right", "escape")
        assert bench.session.n == before + 1


async def test_a_knob_that_the_engine_lacks_stays_where_it_is(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        why = "vLLM does not know temperature"
        monkeypatch.setattr(type(bench.session), "capabilities", Capabilities({"temperature": why}))
        bench.screen.run("knobs")
        sheet = await opened(bench, KnobsScreen)
        assert str(sheet.query_one(".about", Static).content) == why
        await bench.press("right", "left", "left")
        assert bench.session.sampling == Sampling()
        await bench.press("down", "right", "escape")
        assert bench.session.sampling != Sampling()
