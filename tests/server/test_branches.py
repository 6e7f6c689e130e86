"""Banned phrases and branches that differ, over a socket, on the bundled model."""

from __future__ import annotations

from typing import Any

import httpx

from srbwriter.engine import Engine

from .test_handles import text_of, written
from .wire import frames

STORY = "Once upon a time, there was a little fox who lived in the wood."


def test_a_phrase_does_not_come_and_events_say_so(real: httpx.Client) -> None:
    common = ["the fox", "one day", "he saw", "loved to", "found a", "was very", "wanted to"]
    events = written(real, prompt=STORY, seed=5, n=6, max_tokens=40, banned_phrases=[common] * 6)
    texts = [text_of(events, index).lower() for index in range(6)]
    assert not [(phrase, text) for text in texts for phrase in common if f" {phrase}" in f" {text}"]
    banned = [event for event in events if event["event"] == "banned"]
    assert banned and all(event["phrase"] in common and event["tokens"] >= 1 for event in banned)
    assert [event["tokens"] for event in events if event["event"] == "stop"] == [40] * 6


def test_a_stream_shows_nothing_of_what_was_taken_back(real: httpx.Client, model: Engine) -> None:
    common = ["the fox", "one day", "he saw", "loved to", "found a", "was very", "wanted to"]
    body: dict[str, Any] = {"model": "m", "prompt": STORY, "max_tokens": 40, "seed": 5}
    body |= {"banned_strings": common, "logprobs": 1}
    model.reset()  # what is cached changes the last bits
    whole = real.post("/v1/completions", json=body).json()["choices"][0]
    model.reset()
    chunks = [
        c["choices"][0]
        for c in frames(real.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    ]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    streamed = [t for chunk in chunks if chunk["logprobs"] for t in chunk["logprobs"]["tokens"]]
    assert streamed == whole["logprobs"]["tokens"] and "".join(streamed) == whole["text"]


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
    for body, words in (({"siblings": "unlike"}, "expected independent or distinct"),):
        answer = real.post("/srb/v1/completions", json={**WIDE, **body})
        assert answer.status_code == 400
        assert words in answer.text
