"""Branches drawn together, and what they do not show: over HTTP, on the bundled model."""

from __future__ import annotations

import httpx

from .test_handles import written

PROMPT = "Once upon a time, there was a fox."
WIDE = {
    "prompt": PROMPT, "n": 6, "max_tokens": 3, "ignore_eos": True, "seed": 3, "min_p": 0, "top_p": 1,
    "temperature": 1.5,
}  # fmt: skip


def test_distinct_branches_begin_differently(real: httpx.Client) -> None:
    first: dict[int, int] = {}
    for event in written(real, **WIDE, siblings="distinct"):
        if event["event"] == "stream":
            first.setdefault(event["index"], event["ids"][0])
    assert len(set(first.values())) == len(first) == 6


def test_what_cannot_be_is_refused_in_words(real: httpx.Client) -> None:
    for body, words in (
        ({"siblings": "unlike"}, "expected independent or distinct"),
        ({"siblings": "distinct", "mirostat": 2}, "cannot be drawn together with mirostat"),
        ({"siblings": "distinct", "adaptive_target": 0.4}, "drawn together with adaptive_target"),
    ):
        answer = real.post("/srb/v1/completions", json={**WIDE, **body})
        assert answer.status_code == 400
        assert words in answer.text
