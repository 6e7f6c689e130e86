"""Asking ahead over HTTP: what is wanted of it is promoted, and is there at once."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.engine.types import EngineOptions
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import serving as serving_engine
from .test_handles import follow, start
from .wire import wait_until


@pytest.fixture(scope="module")
def model() -> Engine:
    return load_engine(short_model(), EngineOptions(n_ctx=2048))


@pytest.fixture(scope="module")
def http(model: Engine) -> Iterator[httpx.Client]:
    yield from serving_engine(model)


def test_a_pick_over_http_is_there_at_once(http: httpx.Client, model: Engine) -> None:
    round_one = start(http, n=2, max_tokens=20, ignore_eos=True)
    follow(http, round_one)
    parent = {"request": round_one.rsplit("/", 1)[1], "branch": 1}
    early = start(http, prompt="", parent=parent, n=3, max_tokens=20, ignore_eos=True, priority="ahead")
    wait_until(lambda: http.get(early).json()["state"] == "done")
    written = model.stats().generated_tokens
    assert http.post(f"{early}/promote").status_code == 202
    found = http.get(early).json()
    assert [branch["tokens"] for branch in found["branches"]] == [20] * 3
    assert found["cached_tokens"] >= found["prompt_tokens"] - 1
    assert model.stats().generated_tokens == written


def test_what_is_promoted_is_written(http: httpx.Client) -> None:
    early = start(http, n=3, max_tokens=20, ignore_eos=True, priority="ahead")
    assert http.post(f"{early}/promote").json()["verb"] == "promote"
    follow(http, early)
    assert [branch["tokens"] for branch in http.get(early).json()["branches"]] == [20] * 3
    assert http.post(f"{early}/promote").status_code == 202, "once more does no harm"
    for name in ("foreground", "urgent"):  # nobody pushes to the front
        answer = http.post("/srb/v1/requests", json={"prompt": "Once", "priority": name})
        assert answer.status_code == 400
        assert "normal, background, ahead" in answer.text
