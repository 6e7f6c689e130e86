"""text-generation-webui's interfaces: ``/v1/internal``, the older ``/api/v1``, and its WebSockets."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from srbwriter.server import ServerError
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_keys import KEYS

BODY: dict[str, Any] = {"prompt": "Once upon a time,", "max_new_tokens": 6}
TEXT = " there was a cat. The"


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


# ---- the older interface


def test_an_answer(client: httpx.Client) -> None:
    assert post(client, "/api/v1/generate", **BODY)["results"][0]["text"] == TEXT
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


def ask(ws: ClientConnection, **body: Any) -> list[dict[str, Any]]:
    ws.send(json.dumps({**BODY, **body}))
    return read(ws)


def text_of(reply: list[dict[str, Any]]) -> str:
    return "".join(one.get("text", "") for one in reply)


def test_a_stream_and_another_on_the_same_socket(ws: ClientConnection) -> None:
    for _ in range(3):
        reply = ask(ws)
        assert text_of(reply) == TEXT
        assert [one["message_num"] for one in reply] == list(range(len(reply)))
        assert reply[-1]["event"] == "stream_end" and "text" not in reply[-1]


def test_what_cannot_be_answered_is_said_and_the_socket_stays(ws: ClientConnection) -> None:
    for message in ("", "{", "[]", '{"prompt": 5}', '{"prompt": "a", "n": 2}', "\x00"):
        ws.send(message)
        (reply,) = read(ws)
        assert reply["event"] == "error" and reply["detail"]["msg"]
    assert text_of(ask(ws)) == TEXT


def test_closing_ends_what_was_asked_for(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 2
    with connect(at(str(client.base_url))) as ws:
        ws.send(json.dumps(BODY))
        assert json.loads(ws.recv(60))["event"] == "text_stream"
    assert engine.cancel_seen.wait(60)


def test_too_much_ahead_ends_the_connection_when_what_waits_is_answered(
    client: httpx.Client, engine: FakeEngine
) -> None:
    engine.hold = 1
    with connect(at(str(client.base_url))) as ws:
        ws.send(json.dumps(BODY))
        begun = [json.loads(ws.recv(60))]
        for _ in range(6):
            ws.send(json.dumps(BODY))
        ws.ping().wait(60)  # they have all come
        engine.release()
        assert text_of(begun + read(ws)) == TEXT
        assert [text_of(read(ws)) for _ in range(4)] == [TEXT] * 4
        with pytest.raises(ConnectionClosed) as closed:
            ws.recv(60)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008 and "4 messages" in closed.value.rcvd.reason


def test_a_socket_that_nobody_uses_is_closed_but_not_one_that_waits(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 1
    with connect(at(serve(timeout=1.0).url)) as ws:
        ws.send(json.dumps(BODY))
        reply = [json.loads(ws.recv(60))]
        with pytest.raises(TimeoutError):
            ws.recv(2.5)  # longer than a silent one may stay
        engine.release()
        assert text_of(reply + read(ws)) == TEXT
        with pytest.raises(ConnectionClosed):
            ws.recv(60)


def test_a_port_of_their_own(serve: Serve) -> None:
    first, second = serve(ws_port=0).url.split(" and ")
    for url in (first, second):
        with connect(at(url)) as ws:
            assert text_of(ask(ws)) == TEXT
    with pytest.raises(ServerError, match="--ws-port"):
        serve(ws_port=int(second.rsplit(":", 1)[1]))


def test_a_key_is_asked_for_and_origins_are_looked_at(serve: Serve, engine: FakeEngine) -> None:
    url = at(serve(api_keys=KEYS).url)
    for headers in ({}, {"Authorization": "Bearer wrong"}):
        with pytest.raises(InvalidStatus, match="403"):
            connect(url, additional_headers=headers)
    with connect(url, additional_headers={"Authorization": "Bearer s2"}) as ws:
        assert text_of(ask(ws)) == TEXT
    assert engine.submitted[-1].client == "ben"
    open_url = at(serve().url)
    for origin in ("http://evil.example", "null"):
        with pytest.raises(InvalidStatus, match="403"):
            connect(open_url, additional_headers={"Origin": origin})
    with handshake(open_url.replace("ws", "http", 1), name="evil.example", wanted=403) as raw:
        assert raw
    with connect(open_url, additional_headers={"Origin": "http://localhost:8000"}) as ws:
        assert text_of(ask(ws)) == TEXT


def test_too_many_requests_are_refused_on_sockets_too(serve: Serve, engine: FakeEngine) -> None:
    """And too large a message."""
    engine.hold = 1
    url = at(serve(max_requests=1, max_body=2000).url)
    with connect(url) as first, connect(url) as second:
        first.send(json.dumps(BODY))
        assert json.loads(first.recv(60))["event"] == "text_stream"
        (reply,) = ask(second)
        assert reply["detail"]["type"] == "service_unavailable"
        with pytest.raises(ConnectionClosed) as closed:
            second.send(json.dumps({"prompt": "a" * 5000}))
            second.recv(60)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009
        engine.release()


# ---- raw sockets


def handshake(url: str, extra: str = "", name: str = "localhost", wanted: int = 101) -> socket.socket:
    host, port = httpx.URL(url).host, httpx.URL(url).port
    assert port
    raw = socket.create_connection((host, port), 60)
    raw.sendall(
        f"GET /api/v1/stream HTTP/1.1\r\nHost: {name}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{extra}\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += raw.recv(1)
    assert head.startswith(b"HTTP/1.1 %d " % wanted)
    assert b"permessage-deflate" not in head
    return raw


@settings(max_examples=10)
@given(rubbish=st.binary(min_size=1, max_size=200))
def test_rubbish_harms_nobody_else(client: httpx.Client, ws: ClientConnection, rubbish: bytes) -> None:
    offer = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"  # is not taken up
    with handshake(str(client.base_url), offer) as raw:
        raw.sendall(rubbish)
        raw.shutdown(socket.SHUT_WR)
        while raw.recv(4096):
            pass
    assert text_of(ask(ws)) == TEXT
