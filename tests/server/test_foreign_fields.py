"""Fields of other programs: done where the engine can, else refused where they would change the text."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from srbwriter.engine.compat import OFF, REFUSED
from tests.fakes.engine import FakeEngine
from tests.server.rows import ENDPOINTS

from .conftest import Serve

DIALECTS: dict[str, dict[str, Any]] = {
    "/completion": {"prompt": "Once", "n_predict": 4},
    "/v1/completions": {"prompt": "Once", "model": "m", "max_tokens": 4},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 4},
    "/srb/v1/completions": {"prompt": "Once", "n": 2, "max_tokens": 4},
    "/api/v1/generate": {"prompt": "Once", "max_length": 4},
}
OTHERWISE: dict[str, Any] = {
    "tfs_z": 0.9, "guidance_scale": 1.5, "no_repeat_ngram_size": 3, "structural_tag": {"type": "x"},
    "structured_outputs": {"regex": "a"}, "logits_processors": ["os.system"], "use_beam_search": True,
    "lora": [{"id": 0, "scale": 0.5}],
}  # fmt: skip


some_dialects = pytest.mark.parametrize("path", ("/completion", "/v1/chat/completions", "/api/v1/generate"))
"""Bodies are read in one place, so that three dialects show it."""


@some_dialects
def test_a_sampler_that_is_not_here_is_refused_in_words(client: httpx.Client, path: str) -> None:
    for name in REFUSED:
        answer = client.post(path, json={**DIALECTS[path], name: OTHERWISE.get(name, 0.7)})
        assert answer.status_code == 400, (name, answer.text)
        for words in (f"Field '{name}'", "null", REFUSED[name]):
            assert words in answer.text


@some_dialects
def test_neutral_values_pass(client: httpx.Client, engine: FakeEngine, path: str) -> None:
    """So do those that act only beside a field that is neutral, and numbers written as text."""
    for value in (None, "", []):
        off = dict.fromkeys((*REFUSED, "regex", "grammar"), value)
        body = {**DIALECTS[path], **off, "negative_prompt": "a dog", "smoothing_curve": 2}
        assert client.post(path, json=body).status_code < 300, value
    for name in REFUSED:
        for value in (*OFF, *map(str, OFF)):
            assert client.post(path, json={**DIALECTS[path], name: value}).status_code < 300, (name, value)
    assert engine.submitted[-1].sampling[0].grammar is None


FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"grammar": "", "grammar_string": 'root ::= "a"'}, "grammar", 'root ::= "a"'),
    ({"guided_json": {"type": "array"}}, "json_schema", '{"type": "array"}'),
    ({"guided_regex": "a+", "json_schema": None}, "regex", "a+"),
    ({"response_format": {"type": "json_object"}}, "json_schema", '{"type": "object"}'),
]


@some_dialects
def test_forms_of_every_spelling(client: httpx.Client, engine: FakeEngine, path: str) -> None:
    for fields, notation, text in FORMS:
        answer = client.post(path, json={**DIALECTS[path], **fields})
        assert answer.status_code < 300, (fields, answer.text)
        assert getattr(engine.submitted[-1].sampling[0], notation) == text


def test_what_the_server_says_of_its_settings_can_be_sent_back(serve: Serve, engine: FakeEngine) -> None:
    """``/props``, ``/slots`` and ``generation_settings``, as whole objects and with what they hold."""
    with httpx.Client(base_url=serve().url, timeout=20) as http:
        default = http.get("/props").json()["default_generation_settings"]
        asked = {
            "prompt": "Once", "n_predict": 4, "mirostat": 2, "top_k": 7, "seed": 5, "stop": ["!"],
            "logit_bias": [[257, False], [258, 1.5]], "banned_phrases": ["a shiver"], "min_tokens": 1,
            "samplers": ["top_k", "temperature"], "dry_sequence_breakers": ["*"],
            "json_schema": '{"type": "object"}',
        }  # fmt: skip
        first = http.post("/completion", json=asked).json()["generation_settings"]
        slot = next(slot["params"] for slot in http.get("/slots").json() if "params" in slot)
        for path, body in DIALECTS.items():
            for reply in (default["params"], default, first, slot):
                answer = http.post(path, json={**reply, "max_tokens": 4, "n_predict": 4, **body})
                assert answer.status_code < 300, answer.text
        again = http.post("/completion", json={**first, "prompt": "Once"}).json()["generation_settings"]
    assert again == first
    assert json.loads(json.dumps(default["params"])) == default["params"]


def test_a_field_that_is_missing_is_named_in_every_dialect(real: httpx.Client) -> None:
    rows = [row for row in ENDPOINTS if "!" in row.body and "{" not in row.paths[0]]
    assert len(rows) >= 15
    for row in rows:
        (required, *_) = re.findall(r"(\w+)!", row.body)
        for path in row.paths:
            answer = real.request(row.method, path, json={"model": None, "temperature": 1})
            assert answer.status_code == 400, (path, answer.text)
            assert f"`{required}` is missing" in answer.text, path
    real.get("/health").raise_for_status()
