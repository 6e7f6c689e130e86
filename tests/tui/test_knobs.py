"""Knobs: what is shown can be typed again, steps stay in range."""

from __future__ import annotations

import pytest

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.parameters import Parameter
from srbwriter.engine.types import InvalidRequest, Sampling
from srbwriter.tui.dialogs.settings import KNOBS, parse, shown
from tests.tui.conftest import OpenBench
from tests.tui.steps import answer, visible

BY_NAME = {knob.name: knob for knob in KNOBS}


@pytest.mark.parametrize("knob", KNOBS, ids=lambda knob: knob.name)
def test_what_is_shown_can_be_typed_again(knob: Parameter) -> None:
    value = knob.default
    assert parse(knob, shown(value)) == value


def test_texts_can_hold_newlines_and_quotes() -> None:
    stop = BY_NAME["stop"]
    value = ("\n\n", '"', "###")
    assert parse(stop, shown(value)) == value


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("temperature", "200", "a number, 0 to 100"), ("top_k", "1.5", "a whole number, -1 or more"),
        ("stop", "no quotes", "texts in quotes"), ("ignore_eos", "maybe", "yes or no"),
        ("boundary", "page", "one of line, sentence, paragraph"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_names_the_knob_and_what_is_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name}: '{text}': expected {expected}"):
        parse(BY_NAME[name], text)


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
