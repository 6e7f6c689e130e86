"""OpenAI's dialect: streams, frame by frame."""

from __future__ import annotations

import httpx

from srbwriter.engine.types import NativeError
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .wire import frames

BODY = {"model": "fake", "prompt": "Once", "max_tokens": 3, "stream": True}
CHAT = {"messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "stream": True}


def test_frames_of_a_completion(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json=BODY)
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["x-accel-buffering"] == "no"
    *chunks, done = frames(answer.content)
    assert done == "[DONE]"
    assert all(len(chunk["choices"]) == 1 and "usage" not in chunk for chunk in chunks)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == " there was a"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["length"]
    assert chunks[-1]["choices"][0]["text"] == ""
    assert len({(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks}) == 1
    body = {**BODY, "n": 2, "stream_options": {"include_usage": True}}
    *chunks, last, done = frames(client.post("/v1/completions", json=body).content)
    assert all(chunk["usage"] is None and chunk["choices"] for chunk in chunks)
    assert (last["choices"], last["usage"]["completion_tokens"], last["usage"]["prompt_tokens"]) == ([], 6, 2)


def test_every_choice_is_told_apart(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" {prompt[-1]}{branch} cat"
    body = {**BODY, "prompt": ["a", "b"], "n": 2, "max_tokens": 9}
    texts = dict.fromkeys(range(4), "")
    reasons = {}
    for chunk in frames(client.post("/v1/completions", json=body).content)[:-1]:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
        if choice["finish_reason"]:
            reasons[choice["index"]] = choice["finish_reason"]
    assert list(texts.values()) == [" a0 cat", " a1 cat", " b0 cat", " b1 cat"]
    assert reasons == dict.fromkeys(range(4), "stop")


def test_frames_of_a_chat(client: httpx.Client) -> None:
    *chunks, done = frames(client.post("/v1/chat/completions", json=CHAT).content)
    assert done == "[DONE]"
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all(chunk["choices"] for chunk in chunks)
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": None}
    assert deltas[-1] == {}
    assert "".join(delta["content"] for delta in deltas[1:-1]) == " there was"
    assert all(delta["content"] and "role" not in delta for delta in deltas[1:-1])
    assert chunks[-1]["choices"][0]["finish_reason"] == "length"
    assert len({chunk["id"] for chunk in chunks}) == 1
    asked = {**CHAT, "n": 2, "stream_options": {"include_usage": True}}
    values = frames(client.post("/v1/chat/completions", json=asked).content)
    assert sum(value["choices"] == [] for value in values[:-1]) == 1


def test_an_error_before_the_first_frame_is_no_stream(client: httpx.Client, engine: FakeEngine) -> None:
    engine.fail_with = NativeError("llama_decode", -3)
    answer = client.post("/v1/completions", json=BODY)
    assert answer.status_code == 503
    assert answer.headers["content-type"].startswith("application/json")
    long = client.post("/v1/completions", json={**BODY, "prompt": " cat" * 600})
    assert long.status_code == 400


def test_an_error_in_the_middle_is_a_frame_and_the_end(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 2
    with (
        httpx.Client(base_url=serve().url, timeout=20) as http,
        http.stream("POST", "/v1/completions", json=BODY) as answer,
    ):
        assert answer.status_code == 200
        incoming = answer.iter_bytes()
        wire = next(incoming)
        engine.generations[-1].abandon(NativeError("llama_decode", 2))
        wire += b"".join(incoming)
    *_, last = frames(wire)
    assert set(last) == {"error"} and "llama_decode" in last["error"]["message"]


def test_a_silent_stream_is_kept_alive(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 0
    with (
        httpx.Client(base_url=serve(ping_seconds=0.05).url, timeout=20) as http,
        http.stream("POST", "/v1/completions", json=BODY) as answer,
    ):
        incoming = answer.iter_bytes()
        wire = next(incoming)
        assert wire.startswith(b": ping\n\n")
        engine.release()
        wire += b"".join(incoming)
    assert frames(wire)[-1] == "[DONE]"
