"""Reading parameters: every spelling, kind and range of the engine's table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srbwriter.engine.parameters import PARAMETERS, SAMPLERS, validate
from srbwriter.engine.types import Request, Sampling, Stop
from tests.fakes.engine import FakeEngine

from .conftest import Serve

NUMBERS = [
    p for p in PARAMETERS if p.record == "sampling" and p.kind in ("int", "float") and p.field != "seed"
]


def sampling_of(engine: FakeEngine) -> Sampling:
    given = engine.submitted[-1].sampling
    return given if isinstance(given, Sampling) else given[0]


def stop_of(engine: FakeEngine) -> Stop:
    given = engine.submitted[-1].stop
    return given if isinstance(given, Stop) else given[0]


Ask = Callable[..., Request]


@pytest.fixture
def ask(client: httpx.Client, engine: FakeEngine) -> Ask:
    """What the engine is asked for a body of these fields."""

    def post(**fields: Any) -> Request:
        answer = client.post("/completion", json={"prompt": "Once", "n_predict": 1, **fields})
        assert answer.status_code == 200, (fields, answer.text)
        return engine.submitted[-1]

    return post


def test_every_spelling_of_every_number_is_read(ask: Ask, engine: FakeEngine) -> None:
    for parameter in NUMBERS:
        value = 1 if parameter.kind == "int" else 0.5
        for number, spelling in enumerate((parameter.name, *parameter.aliases)):
            ask(**{spelling: str(value) if number % 2 else value})
            if parameter.name != "dry_base":  # below 1 means the default there
                assert getattr(sampling_of(engine), parameter.field) == parameter.clamp(value), spelling


def test_every_spelling_of_the_limit(client: httpx.Client, engine: FakeEngine) -> None:
    for name in ("max_tokens", "n_predict", "max_new_tokens", "max_length", "max_completion_tokens"):
        for value, limit in ((7, 7), (-1, None)):
            assert client.post("/completion", json={"prompt": "Once", name: value}).status_code == 200
            assert stop_of(engine).max_tokens == limit, name


@settings(max_examples=15)
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
def test_what_is_read_is_valid_or_refused(
    client: httpx.Client, engine: FakeEngine, values: dict[str, Any]
) -> None:
    answer = client.post("/completion", content=json.dumps({"prompt": "a", "n_predict": 1, **values}))
    if answer.status_code == 200:
        validate(sampling_of(engine))
    else:
        assert answer.status_code == 400
        assert any(f"'{name}'" in answer.json()["error"]["message"] for name in values)


def test_seeds(ask: Ask, engine: FakeEngine) -> None:
    """They count up, stay in range, and two of them mean that one is drawn."""
    for seed, wanted in ((-1, None), (2**32 - 1, None), (5, 5), ("7", 7), (2**32 + 3, 3)):
        ask(seed=seed)
        assert sampling_of(engine).seed == wanted
    given = ask(seed=2**32 - 2, n=3).sampling
    assert isinstance(given, tuple) and [one.seed for one in given] == [2**32 - 2, 2**32 - 1, 0]


def test_samplers_by_name_and_by_letter(ask: Ask, engine: FakeEngine) -> None:
    letters = "".join(letters[0] for letters in SAMPLERS.values())
    assert len(set(letters)) == len(letters)
    for reply in (letters, list(SAMPLERS)):
        ask(samplers=reply)
        assert sampling_of(engine).samplers == tuple(SAMPLERS)


def test_what_is_not_named_stays_as_the_server_was_told(serve: Serve, engine: FakeEngine) -> None:
    base = Sampling(temperature=0.2, logit_bias=((1, 1.0),), samplers=("top_k",), grammar='root ::= "a"')
    with httpx.Client(base_url=serve(sampling=base).url) as http:
        body = {"prompt": "Once", "n_predict": 1}
        http.post("/completion", json={**body, "top_k": None, "unknown": 1})
        assert sampling_of(engine) == base
        http.post("/completion", json={**body, "logit_bias": {"2": 1}, "custom_token_bans": "3, 4,x"})
        assert sampling_of(engine).logit_bias == ((1, 1.0), (2, 1.0), (3, -math.inf), (4, -math.inf))
