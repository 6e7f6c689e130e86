"""Tokens and the text that was published for them."""

from __future__ import annotations

from typing import Any

import httpx
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.fakes.engine import FakeEngine
from tests.sizes import examples

from .wire import frames

TEXT = st.text(st.sampled_from("aé🐈 catdogs.\n"), max_size=30)


def joined(known: dict[str, Any]) -> str:
    return "".join(known["tokens"])


@settings(max_examples=examples(100))
@example(text=" a cat slept on", stop="ept")  # cut out of a token
@given(text=TEXT, stop=st.none() | st.text("cat. 🐈", min_size=1, max_size=4))
def test_tokens_join_to_the_published_text(
    client: httpx.Client, engine: FakeEngine, text: str, stop: str | None
) -> None:
    """However tokens are grouped into events, and whatever a stop string holds back or cuts off."""
    engine.script = lambda prompt, branch: text
    body = {"model": "m", "prompt": "Once", "max_tokens": 200, "logprobs": 1, "stop": stop}
    (choice,) = client.post("/v1/completions", json=body).json()["choices"]
    assert choice["text"] == (text.split(stop)[0] if stop else text)
    assert joined(choice["logprobs"]) == choice["text"]
    assert choice["logprobs"]["text_offset"] == sorted(choice["logprobs"]["text_offset"])
    chunks = frames(client.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    parts = [chunk["choices"][0] for chunk in chunks]
    assert "".join(part["text"] for part in parts) == choice["text"]
    assert "".join(joined(part["logprobs"]) for part in parts if part["logprobs"]) == choice["text"]


@settings(max_examples=examples(60))
@given(text=st.text(st.sampled_from("aé🐈 catdogs.\n"), min_size=1, max_size=30))
def test_tokens_of_a_prompt_join_to_it_and_the_beginning_token_has_no_text(
    client: httpx.Client, text: str
) -> None:
    body = {"model": "m", "prompt": text, "echo": True, "logprobs": 0, "max_tokens": 0}
    (choice,) = client.post("/v1/completions", json=body).json()["choices"]
    assert joined(choice["logprobs"]) == choice["text"] == text
    assert choice["logprobs"]["tokens"][0] == ""
