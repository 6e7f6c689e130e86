"""What means nothing or is too much is refused where it is given; ending gives back what a branch held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from srbwriter.engine import limits
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    FinishReason,
    InvalidRequest,
    Priority,
    Request,
    Sampling,
    Stop,
    Take,
    TokenRun,
)

from .support import LENGTH, PROMPT, exact_engine, finish, fixture_of, started

engine = fixture_of(exact_engine)


# ---- requests

HALF = "\ud800"  # half of a character
HUGE = 2**31 - 1
REQUEST: dict[str, tuple[Any, ...]] = {
    "n": (0, 2.0, True),
    "prompt": (None, [1, "a"], [TokenRun("a"), 5], [-1], [10**9], [TokenRun("", (10**9,))]),
    "priority": (7,),
    "sampling": ("greedy", (Sampling(),) * 3, Sampling(logit_bias=[(5, 1.0)])),  # type: ignore[arg-type]
    "stop": ("the", (Stop(),)),
    "logprobs": (-1, "x" * 500_000),
    "prompt_logprobs": (-1,),
    "next_logprobs": (-1,),
    "next_ids": ((-1,), ("1",)),
    "overflow": ("wrap",),
    "n_keep": (-2,),
    "logits_callback": (5,),
    "siblings": ("unlike",),
    "takes": (5, ("a",), (Take("a", (1.5,)),), (Take(5),)),  # type: ignore[arg-type]
    "begin": ((-1,),),
    "without": ((10**9,),),
}  # fmt: skip
RULES: dict[str, tuple[dict[str, Any], ...]] = {
    "max_tokens": ({"max_tokens": -1}, {"max_tokens": 1.5}),
    "max_seconds": ({"max_seconds": -1.0},),
    "stop": ({"strings": "the"}, {"strings": (HALF,)}),
    "stop_token_ids": ({"token_ids": (10**9,)},),
    "boundary": ({"boundary": "page"},),
}  # fmt: skip
SAMPLING: dict[str, tuple[dict[str, Any], ...]] = {
    "temperature": ({"temperature": float("nan")},),
    "banned_phrases": ({"banned_phrases": (HALF,)},),
    "logit_bias": ({"logit_bias": ((10**6, 1.0),)},),
    "grammar": ({"grammar": "root ::= ("}, {"grammar": f'root ::= "{HALF}"'}),
    "json_schema": ({"json_schema": "{"},),
    "regex": ({"regex": "("}, {"regex": HALF}),
}  # fmt: skip
WRONG = [
    *((field, {field: value}) for field, values in REQUEST.items() for value in values),
    *((field, {"stop": Stop(**fields)}) for field, rules in RULES.items() for fields in rules),
    *((field, {"sampling": Sampling(**fields)}) for field, rules in SAMPLING.items() for fields in rules),
]
TOO_MUCH: list[tuple[str, dict[str, Any]]] = [
    ("n", {"n": 9}),
    ("prompt", {"prompt": "x" * (limits.PROMPT_CHARS + 1)}),
    ("prompt", {"prompt": [1] * (limits.PROMPT_IDS + 1)}),
    ("logprobs", {"logprobs": HUGE}),
    ("max_tokens", {"stop": Stop(max_tokens=HUGE)}),
    ("stop", {"stop": Stop(strings=("x" * 90,) * 256)}),
    ("stop_token_ids", {"stop": Stop(token_ids=(1,) * 4097)}),
    ("repeat_last_n", {"sampling": Sampling(repeat_penalty=1.1, repeat_last_n=HUGE)}),
    ("dry_sequence_breakers", {"sampling": Sampling(dry_sequence_breakers=("x" * 41,))}),
    ("logit_bias", {"sampling": Sampling(logit_bias=((1, 0.5),) * 65_537)}),
    ("grammar", {"sampling": Sampling(grammar="#" * 65_537)}),
    ("samplers", {"sampling": Sampling(samplers=("x" * 1001,))}),
]


def test_a_field_that_means_nothing_or_too_much_is_named_in_few_words(engine: Engine) -> None:
    other = engine.submit(Request("The king", stop=Stop(max_tokens=2, ignore_eog=True)))
    for place, (field, fields) in enumerate(WRONG + TOO_MUCH):
        with pytest.raises(InvalidRequest) as refused:
            engine.submit(replace(Request(PROMPT, n=2), **fields))
            pytest.fail(f"{field} was not refused: {str(fields)[:200]}")
        assert refused.value.field == field, str(fields)[:200]
        assert len(str(refused.value)) < 300, field
        if place >= len(WRONG):
            assert any(character.isdecimal() for character in refused.value.problem), (
                "it says how much may be"
            )
    finish(engine, other)
    assert len(other.branches[0].ids) == 2


# ---- verbs

MEANINGLESS: list[Callable[[Generation], None]] = [
    lambda g: g.branches[0].change(Sampling(top_p=7.0)),
    lambda g: g.branches[0].change(Sampling(grammar="root ::= (")),
    lambda g: g.branches[0].change(Sampling(logit_bias=((10**6, 1.0),))),
    lambda g: g.branches[0].change("greedy"),
    lambda g: g.branches[0].change(stop=Stop(strings="the")),  # type: ignore[arg-type]
    lambda g: g.branches[0].change(stop=Stop(max_tokens=-1)),
    lambda g: g.branches[0].reroll(seed=-3),
    lambda g: g.branches[0].reroll(begin=("a",)),  # type: ignore[arg-type]
    lambda g: g.branches[0].reroll(without=(10**9,)),
    lambda g: g.branches[0].rewind(tokens=1, seed=1 << 64),
    lambda g: g.branches[0].rewind(tokens=-2),
    lambda g: g.branches[0].rewind(),
    lambda g: g.branches[0].rewind(tokens=1, chars=1),
    lambda g: g.branches[0].extend(-2),
    lambda g: g.add_branch(0),
    lambda g: g.add_branch(9),
    lambda g: g.add_branch(2, (Sampling(),)),
    lambda g: g.add_branch(1, Sampling(regex="(")),
    lambda g: g.add_branch(begin=(-1,)),
    lambda g: g.promote("soon"),  # type: ignore[arg-type]
    lambda g: g.promote(Priority.BACKGROUND),
]


def test_verbs_that_mean_nothing_are_refused_and_change_nothing(
    engine: Engine, undisturbed: list[tuple[int, ...]]
) -> None:
    generation = started(engine)
    for number, ask in enumerate(MEANINGLESS):
        with pytest.raises(InvalidRequest):
            ask(generation)
            pytest.fail(f"number {number} was not refused")
    finish(engine, generation)
    assert [b.ids for b in generation.branches] == undisturbed
    for ask in MEANINGLESS:
        with pytest.raises(InvalidRequest):
            ask(generation)
    assert generation.done


def test_killing_an_ended_branch_leaves_its_text_and_the_cells_of_the_others(engine: Engine) -> None:
    generation = started(engine, n=3)
    finish(engine, generation)
    first, second, third = generation.branches
    text, before = first.text, engine.stats()
    first.kill()
    engine.process()
    assert (first.finish_reason, first.text) == (FinishReason.KILLED, text)
    assert engine.stats().used_cells < before.used_cells
    second.extend(4)
    third.extend(4)
    finish(engine, generation)
    assert engine.stats().branch_rows - before.branch_rows <= 2 * 5, "what the others held is still there"
    first.extend(4)
    finish(engine, generation)
    assert first.text.startswith(text) and len(first.ids) == LENGTH + 4
