"""Prompts that fill a gap: the order of their parts, what is cut where they are too long, what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.engine import Engine
from srbwriter.engine.infill import infill_ids
from srbwriter.engine.types import EngineOptions, NotSupported, Request, Stop, TokenRun
from tests.fakes.shared_model import load_engine

from .support import GREEDY, finish, fixture_of, toy_model
from .toy_models import FIRST_MARK, make_gemma, make_qwen

SMALL = EngineOptions(n_ctx=256, gpu_layers=0, threads=1, max_branches=2)
PRE, SUF, MID = range(FIRST_MARK, FIRST_MARK + 3)


engine = fixture_of(lambda: load_engine(toy_model(make_qwen), SMALL, thread=False))


def test_prefix_suffix_and_middle_in_the_order_of_training(engine: Engine) -> None:
    tokens = engine.tokenize
    assert infill_ids(engine, "the king", " said no") == [
        PRE, *tokens("the king"), SUF, *tokens(" said no"), MID
    ]  # fmt: skip
    runs = (TokenRun("the"), TokenRun("", (40, 41)))
    assert infill_ids(engine, runs, "") == [PRE, *tokens("the"), 40, 41, SUF, MID]


@given(st.integers(0, 400), st.integers(0, 400))
def test_what_does_not_fit_is_cut_far_from_the_gap(engine: Engine, before: int, after: int) -> None:
    found = infill_ids(engine, [40] * before, "," * after)
    assert len(found) < engine.n_ctx - engine.n_ctx // 4
    start, gap = found.index(PRE), found.index(SUF)
    kept = gap - start - 1, len(found) - gap - 2
    assert found[-1] == MID
    assert kept[0] <= before and kept[1] <= after
    if before + after < 180:
        assert kept == (before, after), "nothing is cut that fits"
    if before > 150 and after > 50:
        assert kept[0] > 2 * kept[1] > 80, "what comes before counts for more"
    generation = engine.submit(Request(found, sampling=GREEDY, stop=Stop(max_tokens=1, ignore_eog=True)))
    finish(engine, generation)


def test_a_model_without_the_marks_refuses_with_the_cure() -> None:
    with (
        load_engine(toy_model(make_gemma), SMALL, thread=False) as loaded,
        pytest.raises(NotSupported, match="load one that was trained for it"),
    ):
        infill_ids(loaded, "a", "b")
