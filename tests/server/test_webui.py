"""text-generation-webui's routes beside OpenAI's: ``/v1/internal``."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fakes.engine import FakeEngine


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


# ---- /v1/internal


def test_tokens(client: httpx.Client, engine: FakeEngine) -> None:
    ids = engine.tokenize("Once upon", add_bos=True)
    assert post(client, "/v1/internal/encode", text="Once upon") == {"tokens": ids, "length": 3}
    assert post(client, "/v1/internal/token-count", text="Once upon") == {"length": 3}
    assert post(client, "/v1/internal/decode", tokens=ids[1:]) == {"text": "Once upon"}
    for path, body in (("encode", {}), ("decode", {"tokens": ["a"]}), ("token-count", {"text": 1})):
        assert client.post(f"/v1/internal/{path}", json=body).status_code == 400


def test_the_model(client: httpx.Client) -> None:
    assert client.get("/v1/internal/health").json() == {"status": "ok"}
    reply = client.get("/v1/internal/model/info").json()
    assert reply == {"model_name": "fake", "lora_names": [], "loader": "llama.cpp"}
