"""A branch that cannot go on ends with a reason in words; the others of its request go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    BranchState,
    FinishReason,
    InvalidRequest,
    NotANumber,
    Request,
    Sampling,
    Stop,
)
from tests.fakes.shared_model import load_engine

from .support import PROMPT, SMALL, finish, fixture_of, small_engine, toy_model
from .toy_models import make_with_a_token_without_number, make_without_numbers

TWENTY = Stop(max_tokens=20, ignore_eog=True)
WORDS = "( [a-z]+)+"


engine = fixture_of(small_engine)


# ---- no numbers


@pytest.mark.parametrize("make", [make_without_numbers, make_with_a_token_without_number])
@pytest.mark.parametrize(
    ("fields", "logprobs"),
    [
        ({}, 2), ({"temperature": 0.0}, None), ({"top_k": 0, "top_p": 0.9}, None), ({"mirostat": 2}, 2),
        ({"regex": ".*"}, None),
    ],
    ids=str,
)  # fmt: skip
def test_a_model_that_computes_no_numbers_ends_in_words(
    make: Callable[[Path], Path], fields: dict[str, Any], logprobs: int | None
) -> None:
    with load_engine(toy_model(make), SMALL, thread=False) as engine:
        generation = engine.submit(
            Request("a fox", n=2, sampling=Sampling(seed=1, **fields), stop=TWENTY, logprobs=logprobs)
        )
        with pytest.raises(NotANumber, match="NaN"):
            finish(engine, generation)
        assert [b.state for b in generation.branches] == [BranchState.FAILED] * 2
        assert all(b.finish_reason is FinishReason.ERROR and not b.ids for b in generation.branches)
        assert engine.stats().live_branches == 0


# ---- constraints


def test_a_grammar_that_gets_too_heavy_ends_its_branch_in_words(engine: Engine) -> None:
    """Each token of an ambiguous grammar takes longer than the one before. Others write on."""
    other = engine.submit(
        Request(PROMPT, sampling=Sampling(seed=1), stop=Stop(max_tokens=80, ignore_eog=True))
    )
    sampling = Sampling(seed=1, grammar="root ::= e\ne ::= e e e | e e | [a-z ]")
    heavy = engine.submit(Request(PROMPT, sampling=sampling, stop=Stop(max_tokens=80, ignore_eog=True)))
    with pytest.raises(InvalidRequest, match="too large or too intricate") as caught:
        finish(engine, heavy)
    assert caught.value.field == "grammar"
    assert heavy.branches[0].text and set(heavy.branches[0].text) <= set("abcdefghijklmnopqrstuvwxyz ")
    finish(engine, other)
    assert other.branches[0].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("prompt", ["Once upon a tim", "Once upon a time"])
def test_a_constraint_begins_where_the_prompt_ends(engine: Engine, prompt: str) -> None:
    """Completing the prompt's last word would be text that the constraint does not know."""
    generation = engine.submit(
        Request(prompt, heal=True, sampling=Sampling(regex="[0-9]{12}"), stop=Stop(max_tokens=2))
    )
    finish(engine, generation)
    (branch,) = generation.branches
    branch.extend(30)
    finish(engine, generation)
    assert branch.error is None
    assert branch.text.isdecimal() and len(branch.text) == 12
