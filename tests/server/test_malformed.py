"""Nothing malformed hurts the server, and everything malformed gets its dialect's error."""

from __future__ import annotations

from typing import Any

import httpx

from .conftest import Serve
from .wire import connected, until_closed

POSTS = (
    "/completion", "/v1/completions", "/v1/chat/completions", "/srb/v1/completions",
    "/tokenize", "/detokenize", "/apply-template", "/infill", "/v1/embeddings", "/embedding",
)  # fmt: skip


MALFORMED = (
    b"{", b"[]", b'"text"', b"5", b"\xff\xfe", b'{"prompt": NaN}', b'{"prompt": 1e999}', b"[" * 100_000,
    b'{"prompt":' + b"9" * 5000 + b"}", b'{"messages":{},"content":5}', b'{"prompt": {"a": []}, "n": "x"}',
    b"null", b"\x00",
)  # fmt: skip


def test_every_malformed_body_gets_its_dialects_error(client: httpx.Client) -> None:
    for raw in MALFORMED:
        for path in POSTS:
            answer = client.post(path, content=raw)
            assert answer.status_code in (400, 501), (path, answer.text)
            error = answer.json()["error"]
            # A body without any of OpenAI's fields is one of the other dialect on the path they share.
            srb = path.startswith("/srb/") or (path == "/v1/completions" and isinstance(error, str))
            message = error if srb else error["message"]
            assert isinstance(message, str) and message


def test_bodies_have_a_limit(serve: Serve) -> None:
    with httpx.Client(base_url=serve(max_body=1000).url) as http:
        answer = http.post("/completion", json={"prompt": "a" * 2000})
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, 413)
        assert http.get("/health").status_code == 200


def test_a_body_that_never_comes_is_given_up(serve: Serve) -> None:
    handle = serve(timeout=0.2)
    with connected(handle.port) as plug:
        plug.sendall(b"POST /completion HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        assert b" 408 " in plug.recv(1000)


def test_a_head_that_never_comes_is_given_up(serve: Serve) -> None:
    handle = serve(head_seconds=0.2)
    for said in (b"", b"GET /health HTTP/1.1\r\nHost: local"):
        with connected(handle.port) as plug:
            plug.sendall(said)
            answer = until_closed(plug)
        assert answer.startswith(b"HTTP/1.1 408 ") if said else answer == b""
    with connected(handle.port) as plug:  # nor is a body that nobody reads
        plug.sendall(b"POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000\r\n\r\n")
        assert plug.recv(10_000).startswith(b"HTTP/1.1 404")
        plug.sendall(b"x")
        until_closed(plug)


MEANINGLESS: tuple[tuple[str, Any], ...] = (
    ("lora", 5), ("lora", "x"), ("stop", 5), ("stop", [5]), ("stop", ["x"] * 300), ("temperature", "hot"),
    ("temperature", True), ("temperature", []), ("top_k", [[]]), ("n_predict", -2), ("logit_bias", 5),
    ("logit_bias", [[1, "x"]]), ("logit_bias", [[1.5, 1]]), ("logit_bias", [[1, 10**400]]),
    ("temperature", 10**400), ("dynatemp_low", 10**400), ("stop_token_ids", ["x"]), ("grammar", 5),
    ("json_schema", 5), ("stream", "perhaps"), ("system_prompt", 5),
)  # fmt: skip


def test_a_field_that_means_nothing_is_named(client: httpx.Client) -> None:
    for field, value in MEANINGLESS:
        answer = client.post("/completion", json={"prompt": "a", "n_predict": 1, field: value})
        assert answer.status_code == 400, (field, value)
        assert field in answer.json()["error"]["message"]
    for tokens in ("x", [10**9], ["a"], [1.5], [None]):
        answer = client.post("/detokenize", json={"tokens": tokens})
        assert answer.status_code == 400 and "'tokens'" in answer.json()["error"]["message"]
        assert "prompt" not in answer.json()["error"]["message"]
