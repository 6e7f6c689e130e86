"""The table of parameters agrees with the dataclasses, and every face can rely on it."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.parameters import (
    GROUPS,
    PARAMETERS,
    SAMPLERS,
    Parameter,
    sampler_order,
    validate,
)
from srbwriter.engine.types import InvalidRequest, Request, Sampling, Stop
from tools import pages

NUMBERS = [p for p in PARAMETERS if p.kind in ("int", "float")]
OF_SAMPLING = [p for p in PARAMETERS if p.record == "sampling"]
NOT_PARAMETERS = {
    "prompt", "penalty_prompt", "sampling", "stop", "logits_callback", "label", "client",
    "takes", "common",
}  # fmt: skip


def test_every_field_stands_in_the_table_once() -> None:
    listed = Counter((p.record, p.field) for p in PARAMETERS)
    records = (("sampling", Sampling), ("stop", Stop), ("request", Request))
    fields = {(name, f.name) for name, record in records for f in dataclasses.fields(record)}
    assert set(listed) == {(record, field) for record, field in fields if field not in NOT_PARAMETERS}
    assert set(listed.values()) == {1}


def test_names_and_flags_mean_one_thing() -> None:
    names = Counter(name for p in PARAMETERS for name in (p.name, *p.aliases))
    flags = Counter(flag for p in PARAMETERS for flag in p.flags)
    assert not [word for word, times in (names | flags).items() if times > 1]


@pytest.mark.parametrize("parameter", PARAMETERS, ids=lambda p: p.name)
def test_the_default_is_allowed(parameter: Parameter) -> None:
    assert parameter.group in GROUPS
    if parameter.default is not None:
        parameter.check(parameter.default)


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


def test_the_table_is_cheap_to_read() -> None:
    heavy = {"numpy", "llama_cpp", "llguidance"}
    code = f"import sys, srbwriter.engine.parameters; print({heavy} & set(sys.modules))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "set()"


def test_the_page_is_made_from_the_table() -> None:
    text = (pages.ROOT / "docs" / "sampling.md").read_text("utf-8")
    assert pages.parameters() in text and pages.retired_parameters() in text, "run: python -m tools.pages"
