"""Knobs: what is shown can be typed again, steps stay in range, presets hold what they say."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.widgets import Static

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import validate
from srbwriter.engine.types import InvalidRequest, Sampling, Stop
from srbwriter.tui import knobs
from srbwriter.tui.dialogs.knobs import Knobs as KnobsScreen
from srbwriter.tui.knobs import KNOBS, Setup
from tests.tui.conftest import OpenBench
from tests.tui.scenarios.common import opened, visible

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
    setup = knobs.read_preset(file, Setup(Sampling(temperature=1.9), Stop(max_tokens=7)))
    validate(setup.sampling)
    assert setup.stop.max_tokens == 7
    assert setup.sampling.temperature != 1.9


def test_a_kept_preset_is_read_back() -> None:
    setup = Setup(Sampling(temperature=1.25, dry_sequence_breakers=("a", "b"), seed=5), Stop())
    file = knobs.write_preset("my own", setup)
    assert knobs.presets()["my own"] == file
    again = knobs.read_preset(file, Setup(Sampling(), Stop()))
    assert again.sampling.temperature == 1.25
    assert again.sampling.dry_sequence_breakers == ("a", "b")
    assert again.sampling.seed is None


@pytest.mark.parametrize("text", ["= =", "unknown = 1", "temperature = -5"])
def test_a_broken_preset_names_itself_or_the_knob(text: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match="broken|temperature"):
        knobs.read_preset(file, Setup(Sampling(), Stop()))


@pytest.mark.parametrize(
    "text",
    ["0.4 1.2", "0.4-1.2", "0.4..1.2", "0.4 ... 1.2", "0.4…1.2", "0.4 – 1.2", " 0.4 -  1.2 ", ".4 to 1.2"],
)
def test_a_ladder_is_two_values_however_they_are_parted(text: str) -> None:
    assert knobs.parse_ladder(BY_NAME["temperature"], text) == (0.4, 1.2)


def test_a_ladder_that_cannot_be_read_says_how_it_is_written() -> None:
    temperature, top_k, presence = BY_NAME["temperature"], BY_NAME["top_k"], BY_NAME["presence_penalty"]
    assert knobs.parse_ladder(temperature, " ") is None
    assert knobs.parse_ladder(top_k, "10..20") == (10, 20)
    assert knobs.parse_ladder(presence, "-1 -0.5") == (-1, -0.5)
    assert knobs.parse_ladder(presence, "-1 … 0.5") == (-1, 0.5)
    for text in ("0.4", "low high", "0.4 1.2 3", "0.4 … –"):
        with pytest.raises(InvalidRequest, match=r"0\.4 … 1\.2"):
            knobs.parse_ladder(temperature, text)
    with pytest.raises(InvalidRequest):
        knobs.parse_ladder(temperature, "-1..1")
    assert knobs.parse_ladder(temperature, knobs.ladder_words(temperature, 0.25, 2)) == (0.25, 2)


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
