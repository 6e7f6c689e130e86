"""Branches drawn together, and what they do not show: over HTTP, on the bundled model."""

from __future__ import annotations

import httpx
import pytest

from .test_handles import follow, start

PROMPT = "Once upon a time, there was a fox."
WIDE = {
    "prompt": PROMPT, "n": 6, "max_tokens": 3, "ignore_eos": True, "seed": 3, "min_p": 0, "top_p": 1,
    "temperature": 1.5,
}  # fmt: skip


def opened(client: httpx.Client, path: str) -> list[int]:
    """The first tokens of a request's branches, once all have ended."""
    follow(client, path)
    count = client.get(path).json()["count"]
    return [client.get(f"{path}/branches/{index}").json()["ids"][0] for index in range(count)]


def test_distinct_branches_begin_differently(real: httpx.Client) -> None:
    assert len(set(opened(real, start(real, **WIDE, siblings="distinct")))) == 6


@pytest.mark.parametrize("path", ["/v1/completions", "/srb/v1/completions", "/completion"])
def test_every_dialect_takes_it(real: httpx.Client, path: str) -> None:
    plain = {"prompt": PROMPT, "n": 4, "max_tokens": 1, "seed": 3, "top_k": 1}
    texts = set()
    for more in ({}, {"siblings": "distinct", "top_k": 40}):
        answer = real.post(path, json={**plain, **more})
        assert answer.status_code == 200
        texts.add(answer.text)
    assert len(texts) == 2


def test_what_cannot_be_is_refused_in_words(real: httpx.Client) -> None:
    for body, words in (
        ({"siblings": "unlike"}, "expected independent or distinct"),
        ({"siblings": "distinct", "mirostat": 2}, "cannot be drawn together with mirostat"),
        ({"siblings": "distinct", "adaptive_target": 0.4}, "drawn together with adaptive_target"),
    ):
        answer = real.post("/srb/v1/requests", json={**WIDE, **body})
        assert answer.status_code == 400
        assert words in answer.text


# ---- what is not shown


def test_what_the_branches_do_not_show_can_be_read_and_opened(real: httpx.Client) -> None:
    path = start(real, **WIDE, siblings="distinct")
    begun = set(opened(real, path))
    fork = real.get(f"{path}/unexplored").json()
    shares = {opening["id"]: opening["probability"] for opening in fork["openings"]}
    assert fork["after"] == []
    assert fork["covered"] == pytest.approx(sum(shares.get(token, 0.0) for token in begun))
    assert {o["id"] for o in fork["openings"] if o["branches"]} <= begun
    wanted = next(opening for opening in fork["openings"] if not opening["branches"])
    answer = real.post(f"{path}/unexplored", json={"token": wanted["id"]})
    assert answer.status_code == 202
    assert opened(real, path)[6] == wanted["id"]
    again = real.get(f"{path}/unexplored").json()
    assert again["covered"] == pytest.approx(fork["covered"] + wanted["probability"])


def test_a_fork_costs_no_record_that_anybody_sees(real: httpx.Client) -> None:
    path = start(real, **WIDE)
    follow(real, path)
    before = [one["id"] for one in real.get("/srb/v1/requests").json()["data"]]
    assert real.get(f"{path}/unexplored").status_code == 200
    for body in ({}, {"token": -1}, {"token": "But"}, {"token": 10**6}):
        answer = real.post(f"{path}/unexplored", json=body)
        assert answer.status_code == 400 and "token" in answer.text
    assert [one["id"] for one in real.get("/srb/v1/requests").json()["data"]] == before
