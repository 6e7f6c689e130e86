"""Asking ahead over HTTP: it costs nobody a step, and what is wanted of it is promoted."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineOptions, Priority
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import serving as serving_engine
from .test_handles import follow, start
from .test_stress import wait_until

WAIT = 60.0


@pytest.fixture(scope="module")
def model() -> Engine:
    return load_engine(short_model(), EngineOptions(n_ctx=2048))


@pytest.fixture(scope="module")
def http(model: Engine) -> Iterator[httpx.Client]:
    yield from serving_engine(model)


@pytest.fixture
def patient(model: Engine) -> Iterator[None]:
    """Nothing is written ahead by itself."""
    queue = model._scheduler.queue
    usual, queue.prefetch_delay = queue.prefetch_delay, 3600.0
    queue.last_worked = queue.loop.now
    yield
    queue.prefetch_delay = usual


def generation_of(model: Engine, priority: Priority) -> Generation:
    """The live request of this priority."""
    return next(g for g in list(model._generations) if g.request.priority is priority and not g.done)


def test_beside_a_client_nothing_is_written_ahead(http: httpx.Client, model: Engine) -> None:
    early = start(http, n=4, max_tokens=1500, ignore_eos=True, priority="ahead")
    ahead = generation_of(model, Priority.AHEAD)
    wait_until(lambda: all(len(branch.ids) > 2 for branch in ahead.branches))
    client = start(http, n=2, max_tokens=60, ignore_eos=True)
    wanted = generation_of(model, Priority.NORMAL)
    seen = set[int]()
    wanted.add_listener(lambda: seen.add(sum(len(branch.buffer.ids) for branch in ahead.branches)))
    follow(http, client)
    assert not ahead.done
    assert len(seen) == 1
    http.delete(early)


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


@pytest.mark.usefixtures("patient")
def test_what_is_promoted_does_not_wait(http: httpx.Client) -> None:
    early = start(http, n=3, max_tokens=20, ignore_eos=True, priority="ahead")
    assert http.get(early).json()["branches"][0]["tokens"] == 0
    assert http.post(f"{early}/promote").json()["verb"] == "promote"
    follow(http, early)
    assert [branch["tokens"] for branch in http.get(early).json()["branches"]] == [20] * 3
    assert http.post(f"{early}/promote").status_code == 202, "once more does no harm"
    for name in ("foreground", "urgent"):  # nobody pushes to the front
        answer = http.post("/srb/v1/requests", json={"prompt": "Once", "priority": name})
        assert answer.status_code == 400
        assert "normal, background, ahead" in answer.text
