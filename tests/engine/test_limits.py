"""Whatever a request names has a bound, and what is beyond it is refused in words before anything runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine import limits
from srbwriter.engine.engine import Engine
from srbwriter.engine.parameters import PARAMETERS, Parameter
from srbwriter.engine.sampling import SamplerTemplate
from srbwriter.engine.types import InvalidRequest, Request, Sampling, Stop, TokenRun

from .support import PROMPT, SHORT, drive, finish, small_engine

HUGE = 2**31 - 1


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with small_engine() as loaded:
        yield loaded


@pytest.mark.parametrize(
    "parameter", [p for p in PARAMETERS if p.kind in ("texts", "ids", "biases", "text")], ids=lambda p: p.name
)
def test_every_text_and_every_list_has_a_bound(parameter: Parameter) -> None:
    if parameter.kind == "text":
        assert parameter.longest
        return
    assert parameter.most
    assert parameter.kind != "texts" or parameter.longest


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (Request(PROMPT, sampling=Sampling(repeat_penalty=1.1, repeat_last_n=HUGE)), "repeat_last_n"),
        (Request(PROMPT, sampling=Sampling(dry_penalty_last_n=HUGE)), "dry_penalty_last_n"),
        (Request(PROMPT, sampling=Sampling(dry_sequence_breakers=("x" * 41,))), "dry_sequence_breakers"),
        (Request(PROMPT, sampling=Sampling(logit_bias=((1, 0.5),) * 65_537)), "logit_bias"),
        (Request(PROMPT, sampling=Sampling(grammar="#" * 65_537)), "grammar"),
        (Request(PROMPT, sampling=Sampling(json_schema=" " * 65_537)), "json_schema"),
        (Request(PROMPT, sampling=Sampling(regex="a" * 65_537)), "regex"),
        (Request(PROMPT, sampling=Sampling(samplers=("x" * 1001,))), "samplers"),
        (Request(PROMPT, stop=Stop(max_tokens=HUGE)), "max_tokens"),
        (Request(PROMPT, stop=Stop(strings=("x" * 400_000,))), "stop"),
        (Request(PROMPT, stop=Stop(strings=("x" * 90,) * 256)), "stop"),
        (Request(PROMPT, stop=Stop(strings=("x",) * 257)), "stop"),
        (Request(PROMPT, stop=Stop(after_any=("x" * 1001,))), "after_any"),
        (Request(PROMPT, stop=Stop(token_ids=(1,) * 4097)), "stop_token_ids"),
        (Request(PROMPT, logprobs=HUGE), "logprobs"),
        (Request(PROMPT, prompt_logprobs=101), "prompt_logprobs"),
        (Request(PROMPT, n=HUGE), "n"),
        (Request("x" * (limits.PROMPT_CHARS + 1)), "prompt"),
        (Request([1] * (limits.PROMPT_IDS + 1)), "prompt"),
        (Request([TokenRun("x" * limits.PROMPT_CHARS), TokenRun("x")]), "prompt"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_too_much_is_refused_in_words(engine: Engine, request_: Request, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(request_)
    assert caught.value.field == field
    assert any(character.isdecimal() for character in caught.value.problem)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["repeat_last_n", "dry_penalty_last_n"])
def test_a_window_takes_no_more_than_the_context(engine: Engine, name: str) -> None:
    sampling = Sampling(repeat_penalty=1.2, dry_multiplier=1.0, **{name: limits.TOKENS})
    template = SamplerTemplate(sampling, engine.model, 300)
    assert getattr(template.sampling, name) == 300
    template.close()


def test_as_many_biases_as_are_possible_beside_the_ends_that_are_never_chosen(engine: Engine) -> None:
    vocabulary = engine.info.n_vocab
    biases = tuple((k % vocabulary, 0.001) for k in range(limits.BIASES))
    generation = engine.submit(Request(PROMPT, sampling=Sampling(logit_bias=biases), stop=SHORT))
    finish(engine, generation)
    assert len(generation.branches[0].ids) == SHORT.max_tokens


def test_a_request_cannot_gather_branches_without_end(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BRANCHES", 3)
    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
    generation.add_branch(1)
    drive(engine, lambda: len(generation.branches) == 3)
    with pytest.raises(InvalidRequest, match="3 are possible"):
        generation.add_branch(1)
    finish(engine, generation)


def test_typed_text_has_a_bound(engine: Engine) -> None:
    generation = engine.submit(Request(PROMPT, stop=SHORT))
    with pytest.raises(InvalidRequest, match="4000000 are possible"):
        generation.branches[0].append("x" * (limits.PROMPT_CHARS + 1))
    finish(engine, generation)


@given(st.integers(1, 2 * limits.DEPTH), st.booleans())
def test_depth_is_counted_in_lists_and_objects(depth: int, objects: bool) -> None:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": 1, "b": value} if objects else [1, value]
    assert limits.too_deep(value) is (depth > limits.DEPTH)
    assert limits.too_deep([value, value] if objects else {"a": value}) is (depth + 1 > limits.DEPTH)


def test_a_message_about_a_large_value_is_short(engine: Engine) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(replace(Request(PROMPT), logprobs="x" * 500_000))  # type: ignore[arg-type]
    assert len(str(caught.value)) < 200
