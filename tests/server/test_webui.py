"""text-generation-webui's interfaces: ``/v1/internal``, the older ``/api/v1``, and its WebSockets."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_keys import KEYS

BODY: dict[str, Any] = {"prompt": "Once upon a time,", "max_new_tokens": 6}
TEXT = " there was a cat. The"


def post(client: httpx.Client, path: str, **body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_tokens(client: httpx.Client, engine: FakeEngine) -> None:
    ids = engine.tokenize("Once upon", add_bos=True)
    assert post(client, "/v1/internal/encode", text="Once upon") == {"tokens": ids, "length": 3}
    assert post(client, "/v1/internal/token-count", text="Once upon") == {"length": 3}
    assert post(client, "/v1/internal/decode", tokens=ids[1:]) == {"text": "Once upon"}
    for path, body in (("encode", {}), ("decode", {"tokens": ["a"]}), ("token-count", {"text": 1})):
        assert client.post(f"/v1/internal/{path}", json=body).status_code == 400


def test_the_model(client: httpx.Client) -> None:
    reply = client.get("/v1/internal/model/info").json()
    assert reply == {"model_name": "fake", "lora_names": [], "loader": "llama.cpp"}


def test_the_older_api(client: httpx.Client, engine: FakeEngine) -> None:
    """What SillyTavern 1.9.7 asks; leaving a field out means what it meant there."""
    assert client.get("/api/v1/model").json() == {"result": "fake"}
    assert post(client, "/api/v1/generate", **BODY)["results"][0]["text"] == TEXT
    assert engine.submitted[-1].sampling[0].temperature == 0.5
    assert post(client, "/api/v1/token-count", prompt="Once upon") == {"results": [{"tokens": 3}]}
    assert post(client, "/api/v1/stop-stream") == {"results": "success"}


# ---- WebSockets


def at(url: str) -> str:
    return url.rstrip("/").replace("http", "ws", 1) + "/api/v1/stream"


@pytest.fixture
def ws(client: httpx.Client) -> Iterator[ClientConnection]:
    with connect(at(str(client.base_url))) as opened:
        yield opened


def read(ws: ClientConnection) -> list[dict[str, Any]]:
    """Messages up to the last of an answer."""
    reply: list[dict[str, Any]] = []
    while not reply or reply[-1]["event"] == "text_stream":
        reply.append(json.loads(ws.recv(60)))
    return reply


def text_of(reply: list[dict[str, Any]]) -> str:
    return "".join(one.get("text", "") for one in reply)


def test_a_stream_and_others_on_the_same_socket(ws: ClientConnection) -> None:
    for _ in range(3):
        ws.send(json.dumps(BODY))
    for _ in range(3):
        reply = read(ws)
        assert text_of(reply) == TEXT
        assert [one["message_num"] for one in reply] == list(range(len(reply)))
        assert reply[-1]["event"] == "stream_end" and "text" not in reply[-1]


def test_what_cannot_be_answered_is_said_and_the_socket_stays(ws: ClientConnection) -> None:
    for message in ("{", "[]", '{"prompt": 5}', '{"prompt": "a", "n": 2}', "\x00"):
        ws.send(message)
        (reply,) = read(ws)
        assert reply["event"] == "error" and reply["detail"]["msg"], message
    ws.send(json.dumps(BODY))
    assert text_of(read(ws)) == TEXT


def test_closing_ends_what_was_asked_for(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 2
    with connect(at(str(client.base_url))) as ws:
        ws.send(json.dumps(BODY))
        assert json.loads(ws.recv(60))["event"] == "text_stream"
    assert engine.cancel_seen.wait(60)


def test_too_much_ahead_and_silence_end_the_connection(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 1
    url = at(serve(timeout=1.0).url)
    for ahead, words in ((8, "4 messages"), (0, "too long")):
        with connect(url) as ws, pytest.raises(ConnectionClosed) as closed:
            for _ in range(ahead):
                ws.send(json.dumps(BODY))
            while True:
                ws.recv(60)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008 and words in closed.value.rcvd.reason


def test_a_port_of_their_own(serve: Serve) -> None:
    for url in serve(ws_port=0).url.split(" and "):
        with connect(at(url)) as ws:
            ws.send(json.dumps(BODY))
            assert text_of(read(ws)) == TEXT


def test_a_key_is_asked_for_and_origins_are_looked_at(serve: Serve, engine: FakeEngine) -> None:
    url = at(serve(api_keys=KEYS).url)
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, additional_headers=headers)
    with connect(url, additional_headers={"Authorization": "Bearer s2"}) as ws:
        ws.send(json.dumps(BODY))
        assert text_of(read(ws)) == TEXT
    assert engine.submitted[-1].client == "ben"
    open_url = at(serve().url)
    for origin in ("http://evil.example", "null"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(open_url, additional_headers={"Origin": origin})
    with connect(open_url, additional_headers={"Origin": "http://localhost:8000"}) as ws:
        ws.send(json.dumps(BODY))
        assert text_of(read(ws)) == TEXT


def test_the_example_of_the_page(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs/dialects.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.S)
    monkeypatch.setattr(sys, "argv", ["example", f"localhost:{client.base_url.port}"])
    exec(example, {})
    assert capsys.readouterr().out.startswith(TEXT)
