"""The API's description: complete, and true under generated requests."""

from __future__ import annotations

from functools import cache
from typing import Any

import httpx
import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srbwriter.server.endpoints import description
from tests.server.rows import DIALECTS

from .wire import frames

LABELS = [
    f"{method.upper()} {path}"
    for path, methods in description(DIALECTS)["paths"].items()
    for method in methods
]


@cache
def operations() -> dict[str, Any]:
    """What schemathesis reads in the description, by method and path."""

    from schemathesis import openapi

    schema = openapi.from_dict(description(DIALECTS))
    return {result.ok().label: result.ok() for result in schema.get_all_operations()}


def test_every_endpoint_is_described(client: httpx.Client) -> None:
    value = client.get("/openapi.json").json()
    assert value["openapi"].startswith("3.1")
    operations = [op for path in value["paths"].values() for op in path.values()]
    assert len({op["operationId"] for op in operations}) == len(operations)
    assert all(op["summary"] and op["tags"] for op in operations)
    assert "/v1/completions" in value["paths"] and "/srb/v1/requests/{id}/branches/{branch}" in value["paths"]


@pytest.mark.parametrize("label", LABELS[::10])
@given(data=st.data())
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
def test_generated_requests_are_answered(label: str, client: httpx.Client, data: st.DataObject) -> None:
    """Whatever the description allows, and what it does not: no 500, no hang, errors as JSON."""
    from schemathesis import GenerationMode

    mode = data.draw(st.sampled_from(GenerationMode))
    case = data.draw(operations()[label].as_strategy(generation_mode=mode))
    kwargs: dict[str, Any] = case.as_transport_kwargs(base_url=str(client.base_url))
    answer = client.request(
        kwargs["method"],
        kwargs["url"],
        params=kwargs.get("params"),
        headers=kwargs.get("headers"),
        content=kwargs.get("data"),
        **({"json": kwargs["json"]} if "json" in kwargs else {}),
    )
    assert answer.status_code < 500 or answer.status_code in (501, 503), answer.text
    if answer.status_code >= 400:
        assert {"error", "detail"} & set(answer.json())


CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 3}
TEXT = {"prompt": "Once", "model": "m", "max_tokens": 3}
STREAMED = {"stream": True, "timings_per_token": True, "return_progress": True, "verbose": True}
USAGE = {"stream": True, "stream_options": {"include_usage": True}}
EVERYTHING: list[tuple[str, dict[str, Any], str]] = [
    ("/v1/completions", {**TEXT, "echo": True, "logprobs": 2, "n": 2}, "Completion"),
    ("/v1/completions", {**TEXT, "logprobs": 0, "stop": [" a"], **STREAMED}, "CompletionChunk"),
    ("/v1/completions", {**TEXT, "echo": True, "logprobs": 1, **USAGE}, "CompletionChunk"),
    ("/v1/chat/completions", {**CHAT, "logprobs": True, "verbose": True}, "ChatCompletion"),
    ("/v1/chat/completions", {**CHAT, "logprobs": True, **STREAMED}, "ChatCompletionChunk"),
    ("/v1/chat/completions", {**CHAT, "n": 2, **USAGE}, "ChatCompletionChunk"),
    (
        "/srb/v1/completions?rich=1&sse=1",
        {"prompt": "Once", "n": 2, "logprobs": 2, "stop": ["a"]},
        "SrbEvent",
    ),
    ("/srb/v1/next", {"prompt": "Once", "k": 2, "from": 1}, "SrbNext"),
    ("/v1/completions", {**TEXT, "prompt": " cat" * 600}, "OpenAIError"),
    ("/srb/v1/completions", {"prompt": " cat" * 600}, "SrbError"),
    ("/completion", {"prompt": " cat" * 600}, "LlamaCppError"),
    ("/api/v1/generate", {"prompt": 5}, "KoboldError"),
]


@pytest.mark.parametrize(("path", "body", "name"), EVERYTHING)
def test_answers_with_everything_asked_for_are_described(
    client: httpx.Client, path: str, body: dict[str, Any], name: str
) -> None:
    answer = client.post(path, json=body)
    reference = {"$ref": f"#/components/schemas/{name}"}
    described = jsonschema_rs.validator_for({**reference, "components": description(DIALECTS)["components"]})
    streamed = answer.headers["content-type"].startswith("text/event-stream")
    values = [value for value in frames(answer.content) if value != "[DONE]"] if streamed else [answer.json()]
    for value in values:
        described.validate(value)
        assert not described.is_valid({**value, "other": 1})
