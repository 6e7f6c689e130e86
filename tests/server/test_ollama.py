"""Ollama's API over a socket: raw HTTP, and its official client where that is installed."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from srbwriter.engine.types import Sampling, Stop
from tests.fakes.engine import FIM_MID, FIM_PRE, FIM_SUF, FakeEngine

from .wire import BROWSER

BODY: dict[str, Any] = {"model": "fake", "prompt": "Once upon a time,", "options": {"num_predict": 6}}
TEXT = " there was a cat. The"
MESSAGES = [{"role": "user", "content": "Tell me a story."}]


def lines(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines()]


def sampled(engine: FakeEngine) -> Sampling:
    reply = engine.submitted[-1].sampling
    return reply[0] if isinstance(reply, tuple) else reply


def stopped(engine: FakeEngine) -> Stop:
    reply = engine.submitted[-1].stop
    return reply[0] if isinstance(reply, tuple) else reply


def test_a_sign_of_life_beside_the_page(client: httpx.Client) -> None:
    assert client.get("/").text == "Ollama is running"
    assert client.head("/", headers={"Accept": "application/json"}).status_code == 200
    page = client.get("/", headers=BROWSER)
    assert page.headers["content-type"].startswith("text/html") and "<html" in page.text


def test_a_stream_is_lines_of_json(client: httpx.Client) -> None:
    *pieces, last = lines(client.post("/api/generate", json=BODY))
    assert "".join(one["response"] for one in pieces) == TEXT
    assert {(one["model"], one["done"]) for one in pieces} == {("fake", False)}
    assert last["done"] and last["done_reason"] == "length" and last["response"] == ""
    assert (last["prompt_eval_count"], last["eval_count"]) == (6, 6)
    durations = ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration")
    assert all(isinstance(last[name], int) and last[name] > 0 for name in durations)
    assert last["total_duration"] >= last["eval_duration"]


def test_one_object_without_stream(client: httpx.Client) -> None:
    reply = client.post("/api/generate", json={**BODY, "stream": False})
    assert reply.headers["content-type"].startswith("application/json")
    assert (reply.json()["response"], reply.json()["done"], reply.json()["eval_count"]) == (TEXT, True, 6)
    reply = client.post("/api/generate", json={**BODY, "stream": False, "options": {"stop": ["."]}}).json()
    assert (reply["response"], reply["done_reason"]) == (" there was a cat", "stop")


def test_options_are_read(client: httpx.Client, engine: FakeEngine) -> None:
    options = {
        "num_predict": 3, "temperature": 0.4, "top_k": 7, "top_p": 0.6, "min_p": 0.1, "typical_p": 0.8,
        "seed": 42, "stop": ["\n", "cat"], "repeat_penalty": 1.3, "repeat_last_n": 33,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "mirostat": 2, "mirostat_tau": 4.0,
        "mirostat_eta": 0.2, "num_keep": 4,
        "num_ctx": 2048, "num_gpu": 99, "num_thread": 4, "penalize_newline": True, "xtc_probability": 0.5,
    }  # fmt: skip
    client.post("/api/generate", json={**BODY, "options": options}).raise_for_status()
    got, stop = sampled(engine), stopped(engine)
    assert (got.temperature, got.top_k, got.top_p, got.min_p, got.typical_p) == (0.4, 7, 0.6, 0.1, 0.8)
    assert (got.repeat_penalty, got.repeat_last_n, got.seed) == (1.3, 33, 42)
    assert (got.presence_penalty, got.frequency_penalty, got.xtc_probability) == (0.2, 0.3, 0.5)
    assert (got.mirostat, got.mirostat_tau, got.mirostat_eta) == (2, 4.0, 0.2)
    assert (stop.max_tokens, stop.strings) == (3, ("\n", "cat"))
    assert engine.submitted[-1].n_keep == 4


def test_formats(client: httpx.Client, engine: FakeEngine) -> None:
    client.post("/api/generate", json={**BODY, "format": "json"}).raise_for_status()
    assert json.loads(sampled(engine).json_schema or "") == {"type": "object"}
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    body = {"model": "m", "messages": MESSAGES, "format": schema, "stream": False}
    client.post("/api/chat", json=body).raise_for_status()
    assert json.loads(sampled(engine).json_schema or "") == schema
    assert client.post("/api/generate", json={**BODY, "format": "xml"}).status_code == 400


def test_chat(client: httpx.Client) -> None:
    body = {"model": "fake", "messages": MESSAGES, "options": {"num_predict": 3}}
    *pieces, last = lines(client.post("/api/chat", json=body))
    assert "".join(one["message"]["content"] for one in pieces) == " there was a"
    assert all(one["message"]["role"] == "assistant" for one in (*pieces, last))
    assert (last["done"], last["done_reason"], last["eval_count"]) == (True, "length", 3)
    assert "context" not in last
    reply = client.post("/api/chat", json={**body, "stream": False}).json()
    assert reply["message"] == {"role": "assistant", "content": " there was a"}


def test_models(client: httpx.Client, engine: FakeEngine) -> None:
    assert client.get("/api/version").json()["version"].count(".") == 2
    for path in ("/api/tags", "/api/ps"):
        (card,) = client.get(path).json()["models"]
        assert card["name"] == card["model"] == "fake" and len(card["digest"]) == 64
        assert card["details"]["format"] == "gguf" and card["size"] >= 0
    assert {"expires_at", "size_vram", "context_length"} <= card.keys()
    engine.fim = (FIM_PRE, FIM_SUF, FIM_MID)
    reply = client.post("/api/show", json={"model": "fake"}).json()
    assert {"modelfile", "parameters", "template", "details", "model_info"} <= reply.keys()
    assert reply["capabilities"] == ["completion", "insert"]
    assert client.post("/api/show", json={"model": "other"}).json()["details"] == reply["details"]


# ---- the official client


def test_the_official_client(client: httpx.Client, engine: FakeEngine) -> None:
    ollama = pytest.importorskip("ollama")
    ours = ollama.Client(host=str(client.base_url), timeout=20)
    (model,) = ours.list().models
    assert model.model == "fake" and model.details.format == "gguf"
    assert ours.ps().models[0].model == "fake"
    assert "completion" in ours.show("fake").capabilities
    answer = ours.generate("fake", "Once upon a time,", options={"num_predict": 6, "temperature": 0})
    assert (answer.response, answer.done, answer.eval_count) == (TEXT, True, 6)
    pieces = list(ours.chat("fake", MESSAGES, stream=True, options={"num_predict": 3}))
    assert "".join(piece.message.content for piece in pieces) == " there was a"
    assert pieces[-1].done_reason == "length"
    with pytest.raises(ollama.ResponseError) as caught:
        ours.show("other")
    assert caught.value.status_code == 404
    ours.close()
