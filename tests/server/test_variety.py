"""Branches drawn together, and what they do not show: over HTTP, on the bundled model."""

from __future__ import annotations

import httpx

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


def test_what_cannot_be_is_refused_in_words(real: httpx.Client) -> None:
    for body, words in (
        ({"siblings": "unlike"}, "expected independent or distinct"),
        ({"siblings": "distinct", "mirostat": 2}, "cannot be drawn together with mirostat"),
        ({"siblings": "distinct", "adaptive_target": 0.4}, "drawn together with adaptive_target"),
    ):
        answer = real.post("/srb/v1/requests", json={**WIDE, **body})
        assert answer.status_code == 400
        assert words in answer.text
