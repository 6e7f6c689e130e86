"""The single-request-batching dialect, byte by byte."""

from __future__ import annotations

import httpx

from tests.fakes.engine import FakeEngine

from .wire import frames, lines

PROMPT = {"prompt": "Once upon a time,"}


def test_the_original_curl_gets_the_original_bytes(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " naïve cat sat. The end"
    answer = client.post("/v1/completions", content=b'{ "prompt": "Once upon a time,", "n": 2 }')
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.content == (
        b'data: {"event": "start", "count": 2}\n'
        b'data: {"event": "stream", "index": 0, "text": " na\\u00efve"}\n'
        b'data: {"event": "stream", "index": 1, "text": " na\\u00efve"}\n'
        b'data: {"event": "stream", "index": 0, "text": " cat"}\n'
        b'data: {"event": "stream", "index": 1, "text": " cat"}\n'
        b'data: {"event": "stream", "index": 0, "text": " sat"}\n'
        b'data: {"event": "stream", "index": 1, "text": " sat"}\n'
        b'data: {"event": "stream", "index": 0, "text": "."}\n'
        b'data: {"event": "stop", "index": 0, "length": 3, "stop": 1}\n'
        b'data: {"event": "stream", "index": 1, "text": "."}\n'
        b'data: {"event": "stop", "index": 1, "length": 3, "stop": 1}\n'
        b'data: {"event": "done", "count": 2}\n'
    )


ENDS: tuple[tuple[str, list[str] | None, str, int, int], ...] = (
    (". . cat. The", None, ". . cat.", 4, 1),  # a stop does not count in the first three tokens
    (" cat" * 100, None, " cat" * 65, 64, 0),  # the default limit lets 65 pieces through
    (" cat sat", None, " cat sat", 1, 0),  # the end of the model's text is no stop
    (" a cat sat. The dog slept", [" slept"], " a cat sat. The dog", 5, 1),  # the sentence stop is replaced
)


def test_how_a_branch_ends(client: httpx.Client, engine: FakeEngine) -> None:
    for script, stop, text, length, stopped in ENDS:
        engine.script = lambda prompt, branch, script=script: script
        body = {**PROMPT, "n": 1, **({"stop": stop} if stop else {})}
        events = lines(client.post("/v1/completions", json=body).text)
        assert "".join(e["text"] for e in events if e["event"] == "stream") == text
        assert events[-2] == {"event": "stop", "index": 0, "length": length, "stop": stopped}


def test_a_prompt_that_does_not_fit_is_an_error_with_the_counts(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={"prompt": " cat" * 600})
    assert answer.status_code == 400
    assert answer.json()["n_prompt_tokens"] == 601
    assert answer.json()["n_ctx"] == 512


def test_a_body_of_the_other_dialect_is_answered_in_it(client: httpx.Client) -> None:
    fields = ("model", "stream", "echo", "logprobs", "best_of", "suffix", "stream_options")
    for field in fields:
        value = {"model": "x", "stream": False, "echo": True, "best_of": 1, "stream_options": {}}.get(field)
        answer = client.post("/v1/completions", json={**PROMPT, field: value, "max_tokens": 3})
        assert answer.json()["object"] == "text_completion", field


def test_the_own_path_always_speaks_it(client: httpx.Client) -> None:
    body = {**PROMPT, "model": "x", "stream": True, "n": 1}
    plain = client.post("/srb/v1/completions", json=body)
    assert lines(plain.text)[0] == {"event": "start", "count": 1}
    framed = client.post("/srb/v1/completions?sse=1", json=body)
    assert framed.headers["content-type"].startswith("text/event-stream")
    assert frames(framed.content) == lines(plain.text)


def test_rich_events_carry_ids_logprobs_and_reasons(client: httpx.Client, engine: FakeEngine) -> None:
    body = {**PROMPT, "n": 1, "logprobs": 2, "max_tokens": 2}
    answer = client.post("/srb/v1/completions?sse=1&rich=1", json=body)
    start, prompt, first, _, stop, done = frames(answer.content)
    assert start["id"] == answer.headers["x-request-id"]
    assert prompt == {"event": "prompt", "done": 6, "total": 6, "cached": 0}
    assert first["text"] == engine.detokenize(first["ids"])
    assert first["logprobs"][0]["id"] == first["ids"][0]
    assert len(first["logprobs"][0]["top"]) == 2
    assert (stop["reason"], stop["tokens"]) == ("length", 2)
    assert done["completion_tokens"] == 2
