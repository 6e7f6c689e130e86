"""Clients that send all they will and then only read; how a body may be framed and encoded."""

from __future__ import annotations

import json
import socket

import pytest

from tests.fakes.engine import STORY, FakeEngine

from .conftest import Serve
from .wire import connected, frames, request, until_closed

STREAM = {"prompt": "Once", "stream": True}


def half_close(plug: socket.socket, sent: bytes) -> bytes:
    """Send all and close the writing side; what comes until the server closes."""
    plug.sendall(sent)
    plug.shutdown(socket.SHUT_WR)
    return until_closed(plug)


def body_of(answer: bytes) -> bytes:
    """The body, taken out of its chunks if it came in some."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    if b"transfer-encoding: chunked" not in head.lower():
        return rest
    body = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        if not (length := int(size, 16)):
            return body
        body, rest = body + rest[:length], rest[length + 2 :]


def test_it_gets_its_whole_answer(serve: Serve) -> None:
    port = serve().port
    for more in ((), ("Connection: close",), ("Content-Encoding: Identity",)):
        with connected(port) as plug:
            answer = half_close(plug, request("/completion", {"prompt": "Once"}, *more))
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n"), more
        assert json.loads(body_of(answer))["content"] == STORY
    data = json.dumps({"prompt": "Once"}).encode()
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(data), data)
    with connected(port) as plug:
        answer = half_close(plug, request("/completion", chunks, "Transfer-Encoding: chunked", length=False))
    assert json.loads(body_of(answer))["content"] == STORY
    both = request("/completion", {"prompt": "Once"}) + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with connected(port) as plug:  # requests behind each other are all answered
        answer = half_close(plug, both)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 2 and answer.endswith(b"}")


def test_it_gets_a_stream_to_its_end(serve: Serve, engine: FakeEngine) -> None:
    """One in one piece that takes long begins as every answer does, by which the server learns who reads."""
    engine.hold = 2
    port = serve().port
    with connected(port) as plug:
        plug.sendall(request("/completion", STREAM))
        plug.shutdown(socket.SHUT_WR)
        begun = b""
        while not begun.endswith(b"\r\n000"):  # noughts before the next chunk's length, to learn who reads
            begun += plug.recv(1000)
        assert b"data: " in begun and engine.cancelled == []
        engine.release()
        chunks = frames(body_of(begun + until_closed(plug)))
    assert "".join(chunk["content"] for chunk in chunks) == STORY and chunks[-1]["stop"]
    engine.hold_again(0)
    with connected(port) as plug:
        plug.sendall(request("/completion", {"prompt": "Once"}))
        plug.shutdown(socket.SHUT_WR)
        begun = plug.recv(1)
        while len(begun) < 3:  # some looks later
            begun += plug.recv(10)
        assert b"HTTP/1.1 ".startswith(begun) and engine.cancelled == []
        engine.release()
        answer = begun + until_closed(plug)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n") and json.loads(body_of(answer))["content"] == STORY


@pytest.mark.parametrize("stream", [True, False])
def test_one_that_then_leaves_altogether_ends_its_branches(
    serve: Serve, engine: FakeEngine, stream: bool
) -> None:
    engine.hold = 1
    with connected(serve().port) as plug:
        plug.sendall(request("/completion", {**STREAM, "stream": stream}))
        plug.shutdown(socket.SHUT_WR)
        assert plug.recv(1) == b"H" and engine.cancelled == []
    assert engine.cancel_seen.wait(20)


# ---- framing and encodings
