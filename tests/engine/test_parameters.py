"""The table of parameters agrees with the dataclasses, and every face can rely on it."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.parameters import (
    PARAMETERS,
    SAMPLERS,
    Parameter,
    sampler_order,
    validate,
)
from srbwriter.engine.types import InvalidRequest, Sampling

NUMBERS = [p for p in PARAMETERS if p.kind in ("int", "float")]
OF_SAMPLING = [p for p in PARAMETERS if p.record == "sampling"]


def test_names_and_flags_mean_one_thing() -> None:
    names = Counter(name for p in PARAMETERS for name in (p.name, *p.aliases))
    flags = Counter(flag for p in PARAMETERS for flag in p.flags)
    assert not [word for word, times in (names | flags).items() if times > 1]


@given(st.sampled_from(NUMBERS), st.floats(1e-3, 1e6))
def test_values_out_of_range_are_refused_and_can_be_bent(parameter: Parameter, distance: float) -> None:
    step = math.ceil(distance) if parameter.kind == "int" else distance
    for limit, value in ((parameter.minimum, -step), (parameter.maximum, step)):
        if limit is None:
            continue
        with pytest.raises(InvalidRequest, match=parameter.name):
            parameter.check(limit + value)
        assert parameter.clamp(limit + value) == limit
        parameter.check(limit)


@given(
    st.sampled_from(PARAMETERS), st.sampled_from([math.nan, math.inf, "x", b"x", [1.5], {}, object(), True])
)
def test_values_of_another_kind_are_refused(parameter: Parameter, value: Any) -> None:
    if parameter.kind == "text" and isinstance(value, str) or parameter.kind == "bool" and value is True:
        parameter.check(value)
        return
    with pytest.raises(InvalidRequest) as caught:
        parameter.check(value)
    assert caught.value.field == parameter.name


@pytest.mark.parametrize("parameter", OF_SAMPLING, ids=lambda p: p.name)
def test_validate_looks_at_every_field(parameter: Parameter) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate(dataclasses.replace(Sampling(), **{parameter.field: object()}))
    assert caught.value.field == parameter.name


@pytest.mark.parametrize(
    ("sampling", "field"),
    [
        (Sampling(dry_sequence_breakers=("a", "")), "dry_sequence_breakers"),
        (Sampling(dry_sequence_breakers=("a\0",)), "dry_sequence_breakers"),
        (Sampling(dry_sequence_breakers=("a",) * 65), "dry_sequence_breakers"),
        (Sampling(samplers=("top_k",) * 33), "samplers"),
        (Sampling(logit_bias=((1, math.inf),)), "logit_bias"),
        (Sampling(logit_bias=((1, math.nan),)), "logit_bias"),
        (Sampling(grammar="root ::= .", regex="."), "regex"),
        (Sampling(json_schema="{}", regex="."), "regex"),
    ],
)
def test_what_cannot_mean_anything_names_its_field(sampling: Sampling, field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        validate(sampling)
    assert caught.value.field == field


def test_minus_infinity_is_a_bias() -> None:
    validate(Sampling(logit_bias=((1, -math.inf), (2, 3))))


def test_sampler_orders() -> None:
    assert sampler_order(("temp", "no such", "nucleus", "min_p")) == ("temperature", "top_p", "min_p")
    assert sampler_order("kyzpmt") == ("top_k", "typ_p", "top_p", "min_p", "temperature")
    assert sampler_order(SAMPLERS) == tuple(SAMPLERS)
