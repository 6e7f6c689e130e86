"""Reading parameters: every spelling, kind and range of the engine's table."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.parameters import PARAMETERS, SAMPLERS, Parameter, validate
from srbwriter.engine.types import Sampling, Stop
from srbwriter.server.errors import ApiError
from srbwriter.server.fields import ALIASES, Fields
from srbwriter.server.params import branch_samplings, read_options, read_sampling, read_stop
from tests.fakes.engine import FakeEngine

ENGINE = FakeEngine()
NUMBERS = [
    p for p in PARAMETERS if p.record == "sampling" and p.kind in ("int", "float") and p.field != "seed"
]


@pytest.mark.parametrize("parameter", NUMBERS, ids=lambda p: p.name)
def test_every_spelling_of_every_number_is_read(parameter: Parameter) -> None:
    value = 1 if parameter.kind == "int" else 0.5
    wanted = parameter.clamp(value)
    for spelling in (parameter.name, *parameter.aliases):
        for written in (value, str(value)):
            sampling = read_sampling(Fields({spelling: written}), Sampling(), ENGINE)
            if parameter.name != "dry_base":  # below 1 means the default there
                assert getattr(sampling, parameter.field) == wanted


@pytest.mark.parametrize(
    "name", ["max_tokens", "n_predict", "max_new_tokens", "max_length", "max_completion_tokens"]
)
def test_every_spelling_of_the_limit(name: str) -> None:
    assert read_stop(Fields({name: 7}), Stop()).max_tokens == 7
    assert read_stop(Fields({name: -1}), Stop(max_tokens=3)).max_tokens is None
    assert read_stop(Fields({name: None}), Stop(max_tokens=3)).max_tokens == 3


@given(
    st.dictionaries(
        st.sampled_from([spelling for p in NUMBERS for spelling in (p.name, *p.aliases)]),
        st.none()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.booleans()
        | st.text(max_size=4),
        max_size=6,
    )
)
def test_what_is_read_is_valid_or_refused(values: dict[str, Any]) -> None:
    try:
        sampling = read_sampling(Fields(values), Sampling(), ENGINE)
    except ApiError as error:
        assert error.status == 400 and error.field in values
    else:
        validate(sampling)


@given(seed=st.none() | st.integers(0, 2**32 - 2), n=st.integers(1, 20))
def test_seeds_count_up_and_stay_in_range(seed: int | None, n: int) -> None:
    seeds = [sampling.seed for sampling in branch_samplings(Sampling(seed=seed), n)]
    assert seeds == [None if seed is None else (seed + k) % 2**32 for k in range(n)]


@pytest.mark.parametrize(
    ("seed", "wanted"), [(-1, None), (2**32 - 1, None), (5, 5), ("7", 7), (2**32 + 3, 3)]
)
def test_seeds_that_mean_draw_one(seed: Any, wanted: int | None) -> None:
    assert read_sampling(Fields({"seed": seed}), Sampling(), ENGINE).seed == wanted


def test_sampler_letters_are_those_of_the_names() -> None:
    letters = "".join(letters[0] for letters in SAMPLERS.values())
    assert len(set(letters)) == len(letters)
    assert read_sampling(Fields({"samplers": letters}), Sampling(), ENGINE).samplers == tuple(SAMPLERS)
    validate(Sampling(samplers=tuple(SAMPLERS)))


def test_what_is_not_named_stays_as_the_server_was_told() -> None:
    base = Sampling(temperature=0.2, logit_bias=((1, 1.0),), samplers=("top_k",), grammar='root ::= "a"')
    assert read_sampling(Fields({"top_k": None, "unknown": 1}), base, ENGINE) == base
    changed = read_sampling(Fields({"logit_bias": {"2": 1}, "custom_token_bans": "3, 4,x"}), base, ENGINE)
    assert changed.logit_bias == ((1, 1.0), (2, 1.0), (3, -math.inf), (4, -math.inf))


def test_times_and_boundaries() -> None:
    stop = read_stop(Fields({"t_max_predict_ms": 1500, "boundary": "paragraph", "min_length": 4}), Stop())
    assert (stop.max_seconds, stop.boundary, stop.min_tokens) == (1.5, "paragraph", 4)
    stop = read_stop(Fields({"max_seconds": 2, "after_any": ["!"], "after_min_tokens": 5}), Stop())
    assert (stop.max_seconds, stop.after_any, stop.after_min_tokens) == (2.0, ("!",), 5)
    with pytest.raises(ApiError, match="boundary"):
        read_stop(Fields({"boundary": "chapter"}), Stop())


def test_aliases_stand_in_the_engines_table_only() -> None:
    table = {parameter.name: parameter.aliases for parameter in PARAMETERS}
    assert table == ALIASES


def test_what_llama_cpp_does_not_know_is_emulated_or_refused() -> None:
    def sampling(**values: Any) -> Sampling:
        return read_sampling(Fields(values), Sampling(), FakeEngine())

    assert sampling(do_sample=False, temperature=0.7).temperature == 0.0
    assert sampling(do_sample=True, temperature=0.7).temperature == 0.7
    warm = sampling(dynatemp_low=0.5, dynatemp_high=1.5)
    assert (warm.temperature, warm.dynatemp_range) == (1.0, 0.5)
    assert sampling(dynamic_temperature=False, min_temp=0.5, max_temp=1.5) == sampling()
    assert sampling(sampler_order=[6, 0, 1, 3, 4, 2, 5]).samplers == (
        "penalties", "top_k", "typ_p", "top_p", "min_p", "temperature"
    )  # fmt: skip
    assert sampling(sampler_order=[0], samplers=["min_p"]).samplers == ("min_p",)
    assert sampling(tfs_z=1, penalize_nl=False) == sampling()
    for values in (
        {"num_beams": 4}, {"tfs_z": 0.9}, {"dynatemp_low": "warm", "dynatemp_high": 1}, {"sampler_order": 3}
    ):  # fmt: skip
        with pytest.raises(ApiError) as refused:
            sampling(**values)
        assert refused.value.status == 400
        assert next(iter(values)) in str(refused.value)


def test_the_cache_and_what_penalties_look_back_at() -> None:
    def options(**values: Any) -> Any:
        return read_options(Fields(values), False, ENGINE)

    assert options()["cache_prompt"] is True and options()["penalty_prompt"] is None
    assert options(cache_prompt=False)["cache_prompt"] is False
    assert options(penalty_prompt="")["penalty_prompt"] == options(penalty_prompt=[])["penalty_prompt"] == ()
    assert options(penalty_prompt="a tale")["penalty_prompt"] == "a tale"
    assert options(penalty_prompt=[1, 2])["penalty_prompt"] == [1, 2]
    for wrong in (5, {"a": 1}, [10**9], [None], True):
        with pytest.raises(ApiError, match="prompt"):
            options(penalty_prompt=wrong)


@pytest.mark.parametrize(
    "path", ["/completion", "/v1/completions", "/srb/v1/completions", "/api/v1/generate"]
)
@pytest.mark.parametrize("key", ["--5", "-", "²", "-²", "- 5"])
def test_a_bias_by_text_that_looks_like_a_number(client: httpx.Client, path: str, key: str) -> None:
    body = {"prompt": "Once", "model": "m", "max_tokens": 1, "logit_bias": {key: 1}}
    assert client.post(path, json=body).status_code == 200
