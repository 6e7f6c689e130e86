"""What a client meets when the server ends while it is being answered, and how long a body may be awaited."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest

from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .wire import connected, frames, until_closed, wait_until

BODY: dict[str, Any] = {"prompt": "Once", "model": "m"}


@pytest.mark.parametrize("path", ["/v1/completions", "/completion"])
def test_an_answer_that_takes_longer_than_the_server_waits_is_ended_in_words(
    serve: Serve, engine: FakeEngine, path: str
) -> None:
    engine.hold = 2
    handle = serve(shutdown_seconds=0.2)
    wholes: list[httpx.Response] = []
    asking = threading.Thread(
        target=lambda: wholes.append(httpx.post(handle.url + path, json=BODY, timeout=60))
    )
    with httpx.stream("POST", handle.url + path, json={**BODY, "stream": True}, timeout=60) as streamed:
        pieces = streamed.iter_bytes()
        begun = next(pieces)
        asking.start()
        wait_until(lambda: len(engine.generations) == 2)
        handle.stop(30)
        *before, last = frames(begun + b"".join(pieces))
    asking.join(30)
    for status, error in ((503, last), (wholes[0].status_code, wholes[0].json())):
        assert status == 503 and error["error"]["message"] == "the server is being ended"
        assert error["error"]["type"] == "unavailable_error"
    ends = [choice["finish_reason"] for frame in before for choice in frame.get("choices", ())]
    assert not any([*ends, *(frame.get("stop") for frame in before)]), "as if it were whole"


def test_a_body_that_is_announced_too_large_is_not_awaited(serve: Serve) -> None:
    head = b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n"
    with connected(serve().port) as plug:
        plug.sendall(head)
        assert until_closed(plug).startswith(b"HTTP/1.1 413 ")
