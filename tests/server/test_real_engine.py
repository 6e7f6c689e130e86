"""The server on the bundled model: what the scripted engine cannot show."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine

from .test_handles import text_of, written
from .wire import frames

STORY = "Once upon a time,"


def test_the_same_seed_writes_the_same_in_every_dialect(real: httpx.Client, model: Engine) -> None:
    body = {"prompt": STORY, "n": 3, "max_tokens": 12, "seed": 5, "stop": []}
    model.reset()  # what is cached changes the last bits
    native = [r["content"] for r in real.post("/completion", json=body).json()]
    model.reset()
    openai = [c["text"] for c in real.post("/v1/completions", json={**body, "model": "m"}).json()["choices"]]
    model.reset()
    events = frames(real.post("/srb/v1/completions?sse=1", json=body).content)
    assert native == openai == [text_of(events, index) for index in range(3)]
    assert len(set(native)) == 3


@pytest.mark.parametrize("stop", [None, [" a", "b"]])
def test_streams_and_answers_agree_and_tokens_join(real: httpx.Client, model: Engine, stop: Any) -> None:
    body = {"model": "m", "prompt": STORY, "n": 2, "max_tokens": 40, "seed": 3, "logprobs": 4, "stop": stop}
    model.reset()  # what is cached changes the last bits
    whole = real.post("/v1/completions", json=body).json()["choices"]
    model.reset()
    chunks = frames(real.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    for choice in whole:
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == choice["index"]]
        assert "".join(c["text"] for c in mine) == choice["text"]
        assert mine[-1]["finish_reason"] == choice["finish_reason"]
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
        streamed = [t for c in mine if c["logprobs"] for t in c["logprobs"]["tokens"]]
        assert "".join(streamed) == choice["text"]
        # Text that a stop string cut out of a token has no token and no logprob.
        own, best = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
        known = [(value, top) for value, top in zip(own, best, strict=True) if value is not None]
        assert all(value <= max(top.values()) <= 0 for value, top in known)
        assert len(known) >= len(own) - 1


def test_writing_on_from_an_answer_evaluates_next_to_nothing_again(real: httpx.Client, model: Engine) -> None:
    """By the tokens of a branch, which an event stream tells: no other spelling of the same text."""
    body = {"prompt": STORY, "n": 4, "max_tokens": 9, "seed": 1, "stop": []}
    ids = [id for event in written(real, **body) if event.get("index") == 2 for id in event.get("ids", ())]
    prompt = real.post("/tokenize", json={"content": STORY, "add_special": True}).json()["tokens"]
    done = written(real, prompt=[*prompt, *ids], n=4, max_tokens=3)[-1]
    assert done["prompt_tokens"] - done["cached_tokens"] <= 1


def test_constraints_over_the_wire(real: httpx.Client) -> None:
    chosen = real.post("/v1/completions", json={"model": "m", "prompt": "a", "guided_regex": "red|blue"})
    assert chosen.json()["choices"][0]["text"] in ("red", "blue")
    native = real.post("/completion", json={"prompt": "a", "grammar": 'root ::= "yes" | "no"'}).json()
    assert native["content"] in ("yes", "no")
    for wrong in ({"grammar": "root ::= ("}, {"json_schema": {"type": 7}}, {"guided_regex": "("}):
        answer = real.post("/completion", json={"prompt": "a", **wrong})
        assert answer.status_code == 400, answer.text


def test_an_error_names_what_the_client_sent(real: httpx.Client) -> None:
    wrong: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/v1/embeddings", {"input": [999_999]}),
        ("/embedding", {"content": [999_999]}),
        ("/srb/v1/next", {"k": 101}),
        ("/srb/v1/next", {"ids": [1] * 5000}),
        ("/v1/chat/completions", {"top_logprobs": 101, "logprobs": True}),
        ("/v1/completions", {"top_logprobs": 101, "logprobs": True}),
        ("/api/v1/generate", {"grammar_string": "bad"}),
        ("/v1/completions", {"grammar_string": "bad"}),
    )
    for path, body in wrong:
        field = next(iter(body))
        reply: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]} if "chat" in path else {}
        if field not in ("input", "content"):
            reply["prompt"] = "x"
        answer = real.post(path, json={"model": "m", **reply, **body})
        assert answer.status_code == 400, path
        assert f"Field '{field}'" in answer.text, answer.text
        if path.startswith("/v1/") and "internal" not in path:
            assert answer.json()["error"]["param"] == field
