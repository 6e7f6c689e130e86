"""Branches drawn together, what they do not show, and likely ways on: over HTTP, on the bundled model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import httpx
import pytest

from srbwriter.engine.types import EngineOptions
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import serving as serving_engine
from .test_handles import follow, start

PROMPT = "Once upon a time, there was a fox."
WIDE = {
    "prompt": PROMPT, "n": 6, "max_tokens": 3, "ignore_eos": True, "seed": 3, "min_p": 0, "top_p": 1,
    "temperature": 1.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def serving() -> Iterator[httpx.Client]:
    yield from serving_engine(load_engine(short_model(), EngineOptions(n_ctx=1024)))


def opened(client: httpx.Client, path: str) -> list[int]:
    """The first tokens of a request's branches, once all have ended."""
    follow(client, path)
    count = client.get(path).json()["count"]
    return [client.get(f"{path}/branches/{index}").json()["ids"][0] for index in range(count)]


def test_distinct_branches_begin_differently_and_say_how_likely_that_was(serving: httpx.Client) -> None:
    path = start(serving, **WIDE, siblings="distinct")
    assert len(set(opened(serving, path))) == 6
    left = 1.0
    for index in range(6):
        (drawn,) = serving.get(f"{path}/branches/{index}").json()["drawn"]
        assert drawn["position"] == 0
        assert math.exp(drawn["among"]) == pytest.approx(math.exp(drawn["logprob"]) / left, rel=1e-3)
        left -= math.exp(drawn["logprob"])


@pytest.mark.parametrize("path", ["/v1/completions", "/srb/v1/completions", "/completion"])
def test_every_dialect_takes_it(serving: httpx.Client, path: str) -> None:
    plain = {"prompt": PROMPT, "n": 4, "max_tokens": 1, "seed": 3, "top_k": 1}
    texts = set()
    for more in ({}, {"siblings": "distinct", "top_k": 40}, {"repulsion": 90}):
        answer = serving.post(path, json={**plain, **more})
        assert answer.status_code == 200
        texts.add(answer.text)
    assert len(texts) == 3


def test_what_cannot_be_is_refused_in_words(serving: httpx.Client) -> None:
    for body, words in (
        ({"siblings": "unlike"}, "expected independent, distinct or stratified"),
        ({"siblings": "distinct", "mirostat": 2}, "cannot be drawn together with mirostat"),
        ({"siblings": "stratified", "adaptive_target": 0.4}, "drawn together with adaptive_target"),
    ):
        answer = serving.post("/srb/v1/requests", json={**WIDE, **body})
        assert answer.status_code == 400
        assert words in answer.text
    for body in ({"cutoff": 2}, {"depth": 0}, {"beams": 1000}, {"multiplier": -1}, {"ends": "chapter"}):
        answer = serving.post("/srb/v1/explore", json={"prompt": PROMPT, **body})
        assert answer.status_code == 400 and next(iter(body)) in answer.text


# ---- what is not shown


def test_what_the_branches_do_not_show_can_be_read_and_opened(serving: httpx.Client) -> None:
    path = start(serving, **WIDE, siblings="distinct")
    begun = set(opened(serving, path))
    fork = serving.get(f"{path}/unexplored").json()
    shares = {opening["id"]: opening["probability"] for opening in fork["openings"]}
    assert fork["after"] == []
    assert fork["covered"] == pytest.approx(sum(shares.get(token, 0.0) for token in begun))
    assert {o["id"] for o in fork["openings"] if o["branches"]} <= begun
    wanted = next(opening for opening in fork["openings"] if not opening["branches"])
    answer = serving.post(f"{path}/unexplored", json={"token": wanted["id"]})
    assert answer.status_code == 202
    assert opened(serving, path)[6] == wanted["id"]
    again = serving.get(f"{path}/unexplored").json()
    assert again["covered"] == pytest.approx(fork["covered"] + wanted["probability"])


def test_a_fork_costs_no_record_that_anybody_sees(serving: httpx.Client) -> None:
    path = start(serving, **WIDE)
    follow(serving, path)
    before = [one["id"] for one in serving.get("/srb/v1/requests").json()["data"]]
    assert serving.get(f"{path}/unexplored").status_code == 200
    for body in ({}, {"token": -1}, {"token": "But"}, {"token": 10**6}):
        answer = serving.post(f"{path}/unexplored", json=body)
        assert answer.status_code == 400 and "token" in answer.text
    assert [one["id"] for one in serving.get("/srb/v1/requests").json()["data"]] == before


def test_likely_ways_are_followed(serving: httpx.Client) -> None:
    body = {"prompt": PROMPT, "cutoff": 0.08, "depth": 6, "beams": 5, "ends": "never"}
    answer = serving.post("/srb/v1/explore", json=body).json()
    ways = answer["ways"]
    assert answer["tokens"] == 6 and 2 <= len(ways) <= 5
    assert all(len(way["ids"]) == 6 for way in ways)
    assert len({way["text"] for way in ways}) == len(ways)
    shares = [way["probability"] for way in ways]
    assert shares == sorted(shares, reverse=True)
    assert serving.post("/srb/v1/explore", json=body).json() == answer  # nothing is drawn
    one = serving.post("/srb/v1/explore", json={**body, "cutoff": 1.0}).json()["ways"]
    assert len(one) == 1  # the likeliest token is always followed
