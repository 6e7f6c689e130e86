"""Knobs: what is shown can be typed again, steps stay in range, presets are read whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import validate
from srbwriter.engine.types import InvalidRequest, Sampling
from srbwriter.tui import knobs
from srbwriter.tui.knobs import KNOBS
from tests.tui.conftest import OpenBench
from tests.tui.steps import answer, visible

BY_NAME = {knob.name: knob for knob in KNOBS}


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_what_is_shown_can_be_typed_again(knob: knobs.Parameter) -> None:
    value = knob.default
    assert knobs.parse(knob, knobs.shown(value)) == value


@given(st.sampled_from([knob for knob in KNOBS if knob.kind in ("int", "float")]), st.integers(-500, 500))
def test_steps_stay_in_range(knob: knobs.Parameter, steps: int) -> None:
    value = knobs.stepped(knob, knob.default, steps)
    knob.check(value)


def test_texts_can_hold_newlines_and_quotes() -> None:
    stop = BY_NAME["stop"]
    value = ("\n\n", '"', "###")
    assert knobs.parse(stop, knobs.shown(value)) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [("temperature", "hot"), ("top_k", "1.5"), ("stop", "no quotes"), ("ignore_eos", "maybe")],
)
def test_what_cannot_be_read_names_the_knob(name: str, text: str) -> None:
    with pytest.raises(InvalidRequest, match=name):
        knobs.parse(BY_NAME[name], text)


@pytest.mark.parametrize("file", knobs.presets().values(), ids=lambda file: file.stem)
def test_every_shipped_preset_is_one_the_engine_takes(file: Path) -> None:
    about, sampling = knobs.read_preset(file, Sampling(temperature=1.9))
    validate(sampling)
    assert about


@pytest.mark.parametrize("text", ["= =", "unknown = 1", "temperature = -5"])
def test_a_broken_preset_names_itself_or_the_knob(text: str, tmp_path: Path) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest, match="broken|temperature"):
        knobs.read_preset(file, Sampling())


async def test_what_was_changed_comes_first_and_typing_narrows(open_bench: OpenBench) -> None:
    async with open_bench(fake=True, size=(100, 40)) as bench:
        bench.session.sampling = Sampling(mirostat=2)
        await bench.press("f2")
        shown = visible(bench)
        assert shown.index("What writers change first") < shown.index("* Mirostat") < shown.index("Length")
        await bench.press(*"layout", "enter")
        await answer(bench, "right")
        assert bench.screen.has_class("-right")


async def test_a_step_changes_new_branches_at_once_and_delete_brings_the_usual_value_back(
    open_bench: OpenBench,
) -> None:
    async with open_bench() as bench:
        await bench.press("f2", "right", "right")
        assert bench.session.sampling.temperature == pytest.approx(0.9)
        await bench.press("delete")
        assert bench.session.sampling.temperature == pytest.approx(0.8)
        before = bench.session.n
        await bench.press(*"branches", "right", "escape")
        assert bench.session.n == before + 1


async def test_a_knob_that_the_engine_lacks_stays_where_it_is(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_bench() as bench:
        why = "vLLM does not know temperature"
        monkeypatch.setattr(type(bench.session), "capabilities", Capabilities({"temperature": why}))
        await bench.press("f2")
        assert why in visible(bench)
        await bench.press("right", "left", "left")
        assert bench.session.sampling == Sampling()
        await bench.press("down", "right", "escape")
        assert bench.session.sampling != Sampling()
