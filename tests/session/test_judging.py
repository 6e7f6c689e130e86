"""Judging: the arithmetic against a full evaluation, what it costs, and when a score is void."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.capabilities import Capabilities
from srbwriter.engine.engine import Engine
from srbwriter.engine.types import NotSupported, Priority, Request, Sampling, Stop
from srbwriter.session.judging import RUBRIC, Answers, Judgement, answers, by_score, judge, path, questions
from srbwriter.session.rounds import Round
from tests.engine.support import Reference, decoded_rows, drive, exact_model, finish, stepped

PROMPT = "Once upon a time, there was a little fox who lived in the wood."
ASKED = ("Is it sad?", "Is it short, and does it fit?")


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with stepped(
        n_ctx=1024, max_branches=8, cache_type_k="f32", cache_type_v="f32", model=exact_model()
    ) as e:
        yield e


def written(engine: Engine, n: int = 3, tokens: int = 12) -> Round:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, n=n, sampling=Sampling(seed=5), stop=stop))
    finish(engine, generation)
    current: Any = Round(None, 0, n)  # type: ignore[arg-type]  # no story is asked
    current.generation = generation
    return current


def judged(engine: Engine, current: Round, asked: tuple[str, ...] = ASKED) -> Judgement:
    judgement = judge(engine, current, asked)
    drive(engine, lambda: judgement.done)
    return judgement


def test_a_score_is_what_a_full_evaluation_says(engine: Engine) -> None:
    current = written(engine)
    judgement = judged(engine, current)
    reference = Reference(engine)
    try:
        for branch in current.branches:
            found = judgement.score(branch)
            shares: list[float] = []
            for question in ASKED:
                one = answers(engine, question)
                row = reference.logits([*path(engine, branch), *one.suffix])[0].astype(np.float64)
                odds = np.exp(row - row.max())
                yes, no = (float(odds[list(ids)].sum()) for ids in (one.yes, one.no))
                shares.append(yes / (yes + no))
            assert found.answers == pytest.approx(shares, abs=1e-4)
            assert found.mean == pytest.approx(sum(shares) / 2, abs=1e-4)
    finally:
        reference.close()


def test_the_words_of_an_answer_are_tokens_of_their_own(engine: Engine) -> None:
    one = answers(engine, ASKED[0])
    assert [engine.detokenize([token]) for token in (*one.yes, *one.no)] == [" yes", " no"]
    assert not one.yes & one.no and engine.detokenize(one.suffix).endswith("[Answer:")


def test_it_costs_the_rows_of_the_question_alone() -> None:
    with stepped(n_ctx=1024, max_branches=8, chunk=1000) as engine:
        current = written(engine, n=4)
        suffix = len(answers(engine, ASKED[0]).suffix)
        drive(engine, lambda: not engine._scheduler.loop.pending)
        with decoded_rows(engine) as decoded:
            judged(engine, current, ASKED[:1])
        most = 4 * (suffix + 1)  # and the last token of each, which was never evaluated
        assert sum(decoded) <= most and len(decoded) <= 2
        assert engine.stats().evaluated_again == {}
        with decoded_rows(engine) as decoded:
            assert judge(engine, current, ASKED[:1]).done  # nothing is asked twice
        assert not decoded


def test_a_score_is_void_once_its_branch_is_another(engine: Engine) -> None:
    current = written(engine)
    judgement = judged(engine, current)
    first, second, third = current.branches
    first.reroll()
    second.append(" And so on.")
    third.extend(3)
    finish(engine, current.generation)
    assert [judgement.score(branch) for branch in (first, second, third)] == [None] * 3
    again = judged(engine, current)
    assert again is judgement and all(judgement.score(branch) for branch in current.branches)


def test_only_ended_branches_are_judged(engine: Engine) -> None:
    stop = (Stop(max_tokens=3, ignore_eog=True), Stop(max_tokens=400, ignore_eog=True))
    generation = engine.submit(Request(PROMPT, n=2, sampling=Sampling(seed=5), stop=stop))
    current: Any = Round(None, 0, 2)  # type: ignore[arg-type]
    current.generation = generation
    with pytest.raises(ValueError, match="ended"):
        judge(engine, current, ASKED)
    drive(engine, lambda: not generation.branches[0].live)
    judgement = judged(engine, current)
    assert set(judgement.scores) == {0} and generation.branches[1].live, generation.branches[1].finish_reason
    assert by_score(current) == [0, 1]
    generation.cancel()
    finish(engine, generation)


def test_another_rubric_is_another_judgement(engine: Engine) -> None:
    current = written(engine)
    first = judged(engine, current)
    assert judged(engine, current, ("Is it good?",)) is not first
    with pytest.raises(ValueError, match="no questions"):
        judge(engine, current, ())


def test_an_engine_that_tells_no_odds_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    current = written(engine)
    missing = Capabilities({"next_logprobs": "it reports no odds"})
    monkeypatch.setattr(Engine, "capabilities", missing)
    with pytest.raises(NotSupported, match="cannot be scored: it reports no odds"):
        judge(engine, current, ASKED)


def test_what_does_not_fit_is_said(engine: Engine) -> None:
    current = written(engine)
    judgement = Judgement(("word " * 1500,))
    judgement.begin(engine, current.branches, Priority.NORMAL)
    drive(engine, lambda: judgement.done)
    assert judgement.error is not None and "context" in str(judgement.error)
    found = judgement.score(current.branches[0])
    assert found is not None and found.mean is None


# ---- rubrics


def test_the_note_is_filled_in() -> None:
    assert len(questions(RUBRIC)) == 2
    with_note = questions(RUBRIC, "darker,\n and slower")
    assert len(with_note) == 3 and "(darker, and slower)" in with_note[0]
    assert questions("# no\n\n a  b? \na b?") == ("a b?",)
    with pytest.raises(ValueError, match="16 questions"):
        questions("\n".join(f"{k}?" for k in range(17)))


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(-30, 0)), max_size=6))
def test_shares_are_shares(logprobs: list[tuple[int, float]]) -> None:
    found = Answers((), frozenset({1, 2}), frozenset({3})).read(logprobs)
    known = dict(logprobs)
    if not {1, 2, 3} & known.keys():
        assert found is None
    else:
        yes, no = (sum(math.exp(known[t]) for t in ids if t in known) for ids in ((1, 2), (3,)))
        assert found == pytest.approx(yes / (yes + no)) and 0 <= found <= 1
