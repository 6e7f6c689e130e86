"""What goes over the wire, and waiting for what comes."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
"""What browsers send, and programs do not."""


def lines(text: str) -> list[dict[str, Any]]:
    """Event lines, one a line."""
    return [
        json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line.startswith("data: ")
    ]


def frames(wire: bytes) -> list[Any]:
    """The data of SSE frames; every frame must end in a blank line. ``[DONE]`` stays text."""
    parts = wire.decode().split("\n\n")
    assert parts.pop() == "", "the last frame does not end in a blank line"
    data = [part for part in parts if not part.startswith(":")]
    assert all(part.startswith("data: ") and "\n" not in part for part in data)
    return [
        value if (value := part.removeprefix("data: ")) == "[DONE]" else json.loads(value) for part in data
    ]


def request(path: str, body: dict[str, Any] | bytes, *headers: str, length: bool = True) -> bytes:
    """The bytes of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    sized = [f"Content-Length: {len(data)}"] if length else []
    lines = (f"POST {path} HTTP/1.1", "Host: localhost", *sized, *headers)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + data


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def until_closed(plug: socket.socket) -> bytes:
    """What comes until the server closes the connection; nothing if it resets it."""
    with contextlib.suppress(ConnectionError), plug.makefile("rb") as incoming:
        return incoming.read()
    return b""


def wait_until(condition: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again until it holds; for what another thread does and tells nobody."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        threading.Event().wait(0.005)
