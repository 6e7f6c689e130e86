"""Loops and banned phrases over a socket, on the bundled model."""

from __future__ import annotations

from typing import Any

import httpx

from srbwriter.engine import Engine

from .test_handles import follow
from .wire import frames

STORY = "Once upon a time, there was a little fox who lived in the wood."


def written(client: httpx.Client, **more: Any) -> tuple[str, dict[str, Any]]:
    body = {"prompt": STORY, "n": 3, "max_tokens": 12, "seed": 5, "stop": [], **more}
    path = client.post("/srb/v1/requests", json=body).headers["location"]
    follow(client, path)
    return path, client.get(path).json()


def test_a_phrase_does_not_come_and_events_say_so(real: httpx.Client) -> None:
    common = ["the fox", "one day", "he saw", "loved to", "found a", "was very", "wanted to"]
    path, record = written(real, n=6, max_tokens=40, banned_phrases=[common] * 6)
    texts = [branch["text"].lower() for branch in record["branches"]]
    assert not [(phrase, text) for text in texts for phrase in common if f" {phrase}" in f" {text}"]
    events = [event for event in follow(real, path) if event["event"] == "banned"]
    assert events and all(event["phrase"] in common and event["tokens"] >= 1 for event in events)
    for branch in record["branches"]:
        assert branch["bans"] == sum(event["index"] == branch["index"] for event in events)
        assert branch["tokens"] == 40


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
