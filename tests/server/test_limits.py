"""Every dialect refuses what is too much with a 400 that says the bound, and goes on serving."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from srbwriter.engine import limits
from tests.fakes.engine import FakeEngine
from tests.sizes import some_of

COMPLETIONS = (
    "/completion", "/v1/completions", "/v1/chat/completions", "/srb/v1/completions", "/srb/v1/requests",
)  # fmt: skip
BODY = {"prompt": "Once", "messages": [{"role": "user", "content": "Once"}], "max_tokens": 2}
HUGE = 2**31 - 1


@pytest.mark.parametrize("path", some_of(COMPLETIONS, COMPLETIONS[:2]))
@pytest.mark.parametrize(
    ("field", "value", "bound"),
    [
        ("repeat_last_n", HUGE, "1000000"),
        ("rep_pen_range", HUGE, "1000000"),
        ("dry_penalty_last_n", HUGE, "1000000"),
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
        ("dry_sequence_breakers", "[" * 5000, "deep"),
        ("unknown", json.loads("[" * 101 + "]" * 101), "100"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_size_beyond_its_bound_is_refused(
    client: httpx.Client, engine: FakeEngine, path: str, field: str, value: Any, bound: str
) -> None:
    answer = client.post(path, json={**BODY, field: value})
    assert answer.status_code == 400, answer.text[:200]
    assert bound in answer.text and len(answer.text) < 400
    assert engine.submitted == []


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/completion", {"n_probs": 101}),
        ("/v1/completions", {"logprobs": 101}),
        ("/v1/completions", {"logprobs": True, "top_logprobs": 101}),
        ("/v1/chat/completions", {"logprobs": True, "top_logprobs": 101}),
        ("/srb/v1/completions", {"logprobs": 101}),
    ],
)
def test_the_bound_of_likeliest_tokens_is_told_by_every_dialect(
    client: httpx.Client, path: str, fields: dict[str, Any]
) -> None:
    answer = client.post(path, json={**BODY, **fields})
    assert answer.status_code == 400
    assert "100" in answer.text
    most = {name: 100 if value == 101 else value for name, value in fields.items()}
    assert client.post(path, json={**BODY, **most}).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/completion", {"prompt": "x" * (limits.PROMPT_CHARS + 1)}),
        ("/completion", {"prompt": [1] * (limits.PROMPT_IDS + 1)}),
        ("/completion", {"prompt": ["x" * (limits.PROMPT_CHARS + 1)]}),
        ("/completion", {"prompt": [1, "x" * (limits.PROMPT_CHARS + 1)]}),
        ("/completion", {"prompt": ["x"] * 129}),
        ("/tokenize", {"content": "x" * (limits.PROMPT_CHARS + 1)}),
        ("/detokenize", {"tokens": [1] * (limits.PROMPT_IDS + 1)}),
        ("/apply-template", {"messages": [{"role": "user", "content": "x"}] * 4097}),
        ("/completion", {"prompt": "x", "response_fields": ["x"] * 257}),
    ],
    ids=range(9),
)
def test_a_text_that_is_too_long_is_refused(client: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400, answer.text[:200]
    assert any(character.isdecimal() for character in answer.json()["error"]["message"])


def test_a_look_back_that_is_longer_than_the_context_is_the_whole_context(
    client: httpx.Client, engine: FakeEngine
) -> None:
    answer = client.post("/completion", json={**BODY, "repeat_penalty": 1.1, "repeat_last_n": 1_000_000})
    assert answer.status_code == 200


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_branches_are_counted_through_all_prompts(
    client: httpx.Client, engine: FakeEngine, path: str
) -> None:
    body: dict[str, Any] = {"model": "m", "prompt": ["a"] * 17, "n": 64, "max_tokens": 1}
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert all(word in answer.text for word in ("'prompt'", "'n'", "1088", "1024"))
    assert not engine.submitted
    assert client.post(path, json={**body, "prompt": ["a"] * 16}).status_code == 200
