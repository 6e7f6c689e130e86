"""Behaviour under stress: clients that leave, that stop reading, that are too many; and the server's end."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import httpx
import psutil
import pytest

from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_handles import writing
from .wire import connected, frames, request, wait_until

BODY = {"model": "m", "prompt": "Once"}


def raw_post(port: int, path: str, body: dict[str, Any]) -> socket.socket:
    """A connection on which a request was sent and nothing read yet."""
    plug = connected(port)
    plug.sendall(request(path, body))
    return plug


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("hold", [0, 2])
def test_a_client_that_leaves_ends_its_generation(
    serve: Serve, engine: FakeEngine, stream: bool, hold: int
) -> None:
    engine.hold = hold
    handle = serve()
    body = {**BODY, "messages": [{"role": "user", "content": "a"}], "stream": stream}
    paths = ("/v1/completions", "/completion", "/v1/chat/completions", "/srb/v1/completions")
    for number, path in enumerate(paths):
        with raw_post(handle.port, path, body) as plug:
            if hold and (stream or path.startswith("/srb")):
                assert plug.recv(100).startswith(b"HTTP/1.1 200"), path
            else:
                wait_until(lambda count=number + 1: len(engine.generations) == count)
        assert engine.cancel_seen.wait(10), path
        wait_until(lambda asked=engine.generations[number]: asked.done)
        engine.cancel_seen.clear()


def test_a_client_that_stops_reading_holds_up_nobody_and_is_dropped(serve: Serve, engine: FakeEngine) -> None:
    long = " a cat sat on a mat" * 1_000
    engine.script = lambda prompt, branch: long if prompt.endswith("Once") else " cat"
    engine.hold = 5_000  # tokens: far more than a socket takes, and the branch never ends by itself
    handle = serve(timeout=1.0)
    with raw_post(handle.port, "/completion", {"prompt": "Once", "stream": True, "n_probs": 60}):
        with httpx.Client(base_url=handle.url, timeout=30) as http:
            for _ in range(3):
                assert http.post("/completion", json={"prompt": "a"}).json()["content"] == " cat"
        # Its socket is full and stays so; the server gives up on it and the branch is stopped.
        assert engine.cancel_seen.wait(60)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chat/completions", 429),
        ("/completion", 503),
        ("/srb/v1/completions", 503),
        ("/api/v1/generate", 503),
    ],
)
def test_too_many_are_told_to_come_back(serve: Serve, engine: FakeEngine, path: str, status: int) -> None:
    engine.hold = 1
    with (
        httpx.Client(base_url=serve(max_requests=2).url) as http,
        writing(http),
        writing(http) as (_, events),
    ):
        body = {"prompt": "a", "messages": [{"role": "user", "content": "a"}]}
        answer = http.post(path, json=body)
        assert answer.status_code == status
        assert int(answer.headers["retry-after"]) >= 1
        assert "2" in json.dumps(answer.json())
        engine.release()
        assert [*events][-1]["event"] == "done"
        assert http.post("/completion", json={"prompt": "a", "n_predict": 1}).status_code == 200


def test_many_clients_at_once_get_their_own_text(serve: Serve, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " " + prompt[-3:] + " cat" * 20
    handle = serve()
    texts: dict[int, str] = {}

    def one(number: int) -> None:
        with httpx.Client(base_url=handle.url, timeout=60) as http:
            body = {**BODY, "prompt": f"{number:03}", "stream": True}
            values = frames(http.post("/v1/completions", json=body).content)
            texts[number] = "".join(v["choices"][0]["text"] for v in values[:-1])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert texts == {number: f" {number:03}" + " cat" * 20 for number in range(24)}


def test_hundreds_of_connections_leave_nothing_behind(serve: Serve, engine: FakeEngine) -> None:
    """Some say nothing, some half a request, some ask and leave; a client beside them is answered."""
    engine.script = lambda prompt, branch: " cat"
    handle = serve()
    with httpx.Client(base_url=handle.url, timeout=30) as http:

        def ask() -> str:
            return http.post("/completion", json={"prompt": "a"}).json()["content"]

        assert ask() == " cat"
        before = psutil.Process().num_fds()
        for _ in range(3):
            plugs = [connected(handle.port) for _ in range(200)]
            for plug in plugs[::3]:
                plug.sendall(b"POST /completion HTTP/1.1\r\nHost: loc")
            plugs += [raw_post(handle.port, "/completion", {"prompt": "b"}) for _ in range(20)]
            assert ask() == " cat"
            for plug in plugs:
                plug.close()
        wait_until(lambda: all(asked.done for asked in engine.generations))
        wait_until(lambda: psutil.Process().num_fds() <= before)
        assert ask() == " cat"
