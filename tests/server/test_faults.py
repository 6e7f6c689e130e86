"""Bodies that real clients send, each with what it is to be answered: over a socket, on the bundled model."""

from __future__ import annotations

import json
import math
from typing import Any

import httpx
import pytest

from .wire import frames

PERSON = {
    "type": "object", "required": ["name", "age"],
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99}},
}  # fmt: skip
SHORT: dict[str, Any] = {"model": "m", "prompt": "Once upon", "max_tokens": 4, "temperature": 0}


def post(http: httpx.Client, path: str, body: dict[str, Any]) -> httpx.Response:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def text(http: httpx.Client, **more: Any) -> str:
    return post(http, "/v1/completions", {**SHORT, **more}).json()["choices"][0]["text"]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
def test_an_object_has_the_keys_of_its_schema_and_ends(real: httpx.Client, path: str) -> None:
    messages = [{"role": "user", "content": "Give me a person."}]
    if path == "/api/chat":
        body = {"model": "m", "stream": False, "format": PERSON, "options": {"num_predict": 200}}
        said = post(real, path, {**body, "messages": messages}).json()["message"]["content"]
    else:
        form = {"type": "json_schema", "json_schema": {"name": "P", "schema": PERSON}}
        body = {"response_format": form, "max_tokens": 200, "messages": messages}
        said = post(real, path, body).json()["choices"][0]["message"]["content"]
    assert json.loads(said).keys() == {"name", "age"}


def test_a_schema_may_say_that_it_is_open(real: httpx.Client) -> None:
    """And members of ``allOf`` describe one object together."""
    for schema in (
        {**PERSON, "additionalProperties": {"type": "integer"}},
        {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]},
        {"type": "object", "properties": {"properties": {"type": "integer"}}},
    ):
        post(real, "/completion", {"prompt": "x", "n_predict": 2, "json_schema": schema})
    answer = real.post("/completion", json={"prompt": "x", "json_schema": {"type": "zzz"}})
    assert answer.json()["error"]["message"] == "Field 'json_schema': Invalid type: zzz"


def test_a_streamed_echo_has_the_offsets_of_the_whole_answer(real: httpx.Client) -> None:
    body = {**SHORT, "echo": True, "logprobs": 1}
    whole = post(real, "/v1/completions", body).json()["choices"][0]["logprobs"]
    chunks = frames(post(real, "/v1/completions", {**body, "stream": True}).content)[:-1]
    offsets = [
        at for one in chunks if (known := one["choices"][0]["logprobs"]) for at in known["text_offset"]
    ]
    assert offsets == whole["text_offset"] and offsets == sorted(offsets)


def test_the_native_stream_is_an_event_stream(client: httpx.Client) -> None:
    answer = client.post("/srb/v1/completions", json={"prompt": "Once", "n": 1, "max_tokens": 1})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [one["event"] for one in frames(answer.content)][-1] == "done"
    first = client.post("/v1/completions", json={"prompt": "Once", "n": 1})  # the bytes of the first server
    assert first.headers["content-type"].startswith("text/html") and b"\n\n" not in first.content


def test_the_model_goes_by_its_files_name_and_any_other(real: httpx.Client) -> None:
    card = real.get("/v1/models").json()["data"][0]
    assert " " not in card["id"] and card["aliases"][0] == card["id"] and len(card["aliases"]) == 2
    for name in card["aliases"]:
        assert real.get(f"/v1/models/{name}").json()["id"] == card["id"]
    assert post(real, "/api/show", {"model": "llama3"}).json()["details"]["format"] == "gguf"


def test_nulls_limits_and_numbers_that_are_off(real: httpx.Client) -> None:
    assert text(real, logit_bias={"259": None}) == text(real, logit_bias={}) == text(real, rep_pen=0)
    assert text(real, dry_penalty_last_n=1048576, dry_multiplier=0.0) == text(real)
    usage = post(real, "/v1/completions", {**SHORT, "max_completion_tokens": 3, "ignore_eos": True}).json()
    assert usage["usage"]["completion_tokens"] == 3
    assert text(real, seed=2**63) == text(real)
    for number in (1e300, -1e300):
        message = real.post("/completion", json={"prompt": "x", "top_k": number}).json()["error"]["message"]
        assert message == f"Field 'top_k': the number is too {'large' if number > 0 else 'small'}"
    assert real.post("/completion", json={"prompt": "x", "top_k": math.pi}).status_code == 200


def test_a_wrong_path_is_told_the_likely_one(client: httpx.Client) -> None:
    message = client.get("/v1/v1/models").json()["error"]["message"]
    assert message == "there is no /v1/v1/models here; perhaps /v1/models"
    assert client.get("/v1/models/").json()["data"], "the address of some clients ends with a slash"


def test_a_misspelt_field_is_named(client: httpx.Client) -> None:
    body = {"prompt": "Once", "n": 1, "max_tokens": 1, "temprature": 1, "naïve": 1}
    note = client.post("/srb/v1/completions", json=body).headers["x-note"]
    assert note.startswith("there is no field 'temprature', perhaps 'temperature'; there is no field")
    asked = {"prompt": "Once", "max_tokens": 1, "n": 1, "n_probs": 1, "priority": "background"}
    note = client.post("/srb/v1/completions", json=asked).headers["x-note"]
    assert note.startswith("there is no field 'priority'")


def test_an_answer_says_that_a_seed_does_not_settle_the_text(client: httpx.Client) -> None:
    for path in ("/v1/completions", "/completion"):
        assert post(client, path, {**SHORT, "seed": 5}).json()["deterministic"] is False
        assert "deterministic" not in post(client, path, SHORT).json()


def test_fields_without_effect_are_refused(client: httpx.Client) -> None:
    for path in ("/v1/completions", "/completion", "/api/v1/generate", "/srb/v1/completions"):
        answer = client.post(path, json={"prompt": "Once", "n": 2, "best_of": 3, "max_tokens": 1})
        assert answer.status_code == 400 and "ask for n, and choose among them" in answer.text, path
        assert client.post(path, json={"prompt": "Once", "n": 2, "best_of": 2}).status_code == 200, path


def test_usage_counts_the_tokens_that_an_echo_lists(real: httpx.Client) -> None:
    answer = post(real, "/v1/completions", {**SHORT, "echo": True, "logprobs": 1, "ignore_eos": True}).json()
    tokens = answer["choices"][0]["logprobs"]["tokens"]
    assert len(tokens) == answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + 4
    assert "".join(tokens[: answer["usage"]["prompt_tokens"]]) == SHORT["prompt"]
