"""The single-request-batching dialect, byte by byte."""

from __future__ import annotations

import json

import httpx

from .fake_backend import FakeEngine


def lines(text: str) -> list[dict]:
    return [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if line]


def test_the_original_curl_gets_the_original_bytes(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " naïve cat sat on. The"
    answer = client.post("/v1/completions", content=b'{ "prompt": "Once upon a time,", "n": 2 }')
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["transfer-encoding"] == "chunked"
    wire = answer.content
    assert wire.startswith(
        b'data: {"event": "start", "count": 2}\ndata: {"event": "stream", "index": 0, "text": " na\\u00efve"}\n'
    )
    assert wire.endswith(
        b'data: {"event": "stop", "index": 1, "length": 4, "stop": 1}\ndata: {"event": "done", "count": 2}\n'
    )
    assert b"\n\n" not in wire
