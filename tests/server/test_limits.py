"""Every dialect refuses what is too much with a 400 that says the bound, and goes on serving."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fakes.engine import FakeEngine

COMPLETIONS = (
    "/completion", "/v1/completions", "/v1/chat/completions", "/srb/v1/completions",
)  # fmt: skip
BODY = {"prompt": "Once", "messages": [{"role": "user", "content": "Once"}], "max_tokens": 2}
HUGE = 2**31 - 1


BEYOND: tuple[tuple[str, Any, str], ...] = (
    ("n", HUGE, "64"),
    ("max_tokens", HUGE, "1000000"),
    ("stop", "x" * 400_000, "1000"),
    ("stop", ["x" * 1000] * 21, "20000"),
    ("stop", [f"{k} stop" for k in range(257)], "256"),
    ("after_any", ["x" * 1001], "1000"),
    ("stop_token_ids", [1] * 4097, "4096"),
    ("logit_bias", {str(k): 1 for k in range(65_537)}, "65536"),
    ("logit_bias", [[k % 99, 1] for k in range(65_537)], "65536"),
    ("logit_bias", {"x" * 1001: 1}, "1000"),
    ("dry_sequence_breakers", ["x"] * 65, "64"),
    ("dry_sequence_breakers", ["x" * 41], "40"),
    ("unknown", json.loads("[" * 101 + "]" * 101), "100"),
)


@pytest.mark.parametrize("path", COMPLETIONS[:1])
def test_a_size_beyond_its_bound_is_refused(client: httpx.Client, engine: FakeEngine, path: str) -> None:
    for field, value, bound in BEYOND:
        answer = client.post(path, json={**BODY, field: value})
        assert answer.status_code == 400, (field, answer.text[:200])
        assert bound in answer.text and len(answer.text) < 400
    assert engine.submitted == []


OUT_OF_RANGE: tuple[tuple[str, dict[str, Any], str, str], ...] = (
    ("/completion", {"n_cmpl": 65}, "n_cmpl", "1 <= value <= 64, but got 65"),
    ("/completion", {"n_predict": -2}, "n_predict", "-1 <= value <= 1000000, but got -2"),
    ("/completion", {"n_probs": 101}, "n_probs", "0 <= value <= 100, but got 101"),
    ("/v1/completions", {"logprobs": 101}, "logprobs", "0 <= value <= 100, but got 101"),
    ("/v1/chat/completions", {"n": 0}, "n", "1 <= value <= 64, but got 0"),
)


@pytest.mark.parametrize(("path", "fields", "name", "range"), OUT_OF_RANGE)
def test_a_range_is_told_in_the_words_of_llama_cpp_and_in_the_clients_spelling(
    client: httpx.Client, path: str, fields: dict[str, Any], name: str, range: str
) -> None:
    body = {key: value for key, value in BODY.items() if key != "max_tokens"}
    answer = client.post(path, json={**body, **fields})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(f"Field '{name}': Value must be between {range}")
    assert error["type"] == "invalid_request_error"
    assert (error["code"], error.get("param", name)) == (400, name)


def test_branches_are_counted_through_all_prompts(client: httpx.Client, engine: FakeEngine) -> None:
    body: dict[str, Any] = {"model": "m", "prompt": ["a"] * 17, "n": 64, "max_tokens": 1}
    for path in ("/completion", "/v1/completions"):
        answer = client.post(path, json=body)
        assert answer.status_code == 400
        assert all(word in answer.text for word in ("'prompt'", "'n'", "1088", "1024"))
    assert not engine.submitted
    assert client.post("/completion", json={**body, "prompt": ["a"] * 16}).status_code == 200
