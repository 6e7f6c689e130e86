"""Fields of other programs: done where the engine can, else refused where they would change the text."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from srbwriter.engine.compat import GONE, warn_once
from srbwriter.engine.parameters import PARAMETERS
from tests.fakes.engine import FakeEngine
from tests.server.rows import ENDPOINTS
from tests.sizes import some_of

from .conftest import Serve

DIALECTS: dict[str, dict[str, Any]] = {
    "/completion": {"prompt": "Once", "n_predict": 4},
    "/v1/completions": {"prompt": "Once", "model": "m", "max_tokens": 4},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 4},
    "/srb/v1/completions": {"prompt": "Once", "n": 2, "max_tokens": 4},
    "/srb/v1/requests": {"prompt": "Once", "n": 2, "max_tokens": 4},
    "/api/v1/generate": {"prompt": "Once", "max_length": 4},
    "/generate": {"message": "Once", "stream": False, "max_new_tokens": 4},
}
REFUSED = [gone for gone in GONE if gone.treatment == "refused"]
OTHERWISE: dict[str, Any] = {
    "tfs_z": 0.9, "guidance_scale": 1.5, "no_repeat_ngram_size": 3, "penalty_alpha": 0.6,
    "smoothing_factor": 0.2, "top_a": 0.3, "structural_tag": {"type": "structural_tag"},
    "logits_processors": ["os.system"], "allowed_token_ids": [1], "use_beam_search": True,
    "guided_whitespace_pattern": " ", "stop_regex": "a+", "custom_logit_processor": "{}",
}  # fmt: skip


some_dialects = pytest.mark.parametrize(
    "path", some_of(DIALECTS, ("/completion", "/v1/chat/completions", "/api/v1/generate"))
)
"""Bodies are read in one place, so that three dialects show it by default, and all with --full."""


@some_dialects
def test_a_sampler_that_is_not_here_is_refused_in_words(client: httpx.Client, path: str) -> None:
    for gone in REFUSED:
        neutral = [json.dumps(value) for value in gone.neutral]
        for name in gone.names:
            value = OTHERWISE.get(name, 0.7)
            answer = client.post(path, json={**DIALECTS[path], name: value})
            assert answer.status_code == 400, (name, answer.text)
            for words in (f"Field '{name}'", "null", *neutral):
                assert words in answer.text
            assert not isinstance(value, float) or str(value) in answer.text


@some_dialects
def test_neutral_values_pass(client: httpx.Client, engine: FakeEngine, path: str) -> None:
    """So do those that act only beside a field that is neutral, and numbers written as text."""
    forms = ("structured_outputs", "ebnf", "guided_grammar", "bad_words", "regex", "grammar")
    for value in (None, "", []):
        off = dict.fromkeys((*(name for gone in REFUSED for name in gone.names), *forms), value)
        body = {**DIALECTS[path], **off, "negative_prompt": "a dog", "smoothing_curve": 2}
        assert client.post(path, json=body).status_code < 300, value
    for gone in REFUSED:
        for value in (*gone.neutral, *(str(number) for number in gone.neutral if number is not False)):
            body = {**DIALECTS[path], **dict.fromkeys(gone.names, value)}
            assert client.post(path, json=body).status_code < 300, (gone.names, value)
    assert engine.submitted[-1].sampling[0].grammar is None


def test_a_field_of_an_earlier_version_is_accepted_with_one_notice(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    warn_once.cache_clear()
    for path, body in DIALECTS.items():
        assert client.post(path, json={**body, "strict": False}).status_code < 300
    assert "strict" not in caplog.text
    for path, body in DIALECTS.items():
        assert client.post(path, json={**body, "strict": True}).status_code < 300
    assert caplog.text.count("'strict' of a request: no effect any more") == 1


NUMBERS_AND_THE_LIKE = [row for row in PARAMETERS if row.kind in ("int", "float", "choice", "ids", "biases")]


@some_dialects
def test_an_empty_value_of_a_parameter_is_as_none(client: httpx.Client, path: str) -> None:
    names = [name for row in NUMBERS_AND_THE_LIKE for name in (row.name, *row.aliases)]
    for value in ("", []):
        answer = client.post(path, json={**dict.fromkeys(names, value), **DIALECTS[path]})
        assert answer.status_code < 300, answer.text


GRAMMAR = 'root ::= short_word\n  | "a"  # or this\n\nshort_word ::= "cat" [\\d\\w]?\n'

FORMS: list[tuple[dict[str, Any], str, str]] = [
    ({"structured_outputs": {"json": {"type": "array"}}}, "json_schema", '{"type": "array"}'),
    ({"structured_outputs": {"json_object": True}}, "json_schema", '{"type": "object"}'),
    ({"structured_outputs": {"regex": "a+", "json": None}}, "regex", "a+"),
    ({"structured_outputs": {"choice": ["a.b", "c"]}}, "regex", r"a\.b|c"),
    ({"structured_outputs": {"grammar": 'root ::= "a"'}}, "grammar", 'root ::= "a"'),
    (
        {"structured_outputs": {"regex": "a+", "_backend": "xgrammar", "disable_fallback": True}},
        "regex",
        "a+",
    ),
    ({"structured_outputs": {"choice": ["", "a.b"]}}, "regex", r"(a\.b)?"),
    ({"guided_choice": ["a.b", "c"]}, "regex", r"a\.b|c"),
    ({"ebnf": 'root ::= a_b\na_b ::= "x"'}, "grammar", 'root ::= a_b\na_b ::= "x"'),
    ({"grammar": "", "grammar_string": 'root ::= "a"'}, "grammar", 'root ::= "a"'),
    ({"response_format": {"type": "json_object"}}, "json_schema", '{"type": "object"}'),
]
NO_FORMS: list[tuple[dict[str, Any], str]] = [
    ({"ebnf": GRAMMAR}, "Field 'ebnf': line 4"),
    ({"ebnf": "root ::= a_b"}, "rule 'a_b' is not defined"),
    ({"ebnf": 'a ::= "x"'}, "no rule 'root'"),
    ({"ebnf": 'root ::= "a" (= "b")'}, "lookahead"),
    ({"guided_grammar": 'root ::= TagDispatch(("a", b))'}, "TagDispatch"),
    ({"ebnf": 'root ::= "a"\nroot ::= "b"'}, "line 2: rule 'root' is defined twice"),
    ({"ebnf": 'start: "a"'}, "line 1"),
    ({"ebnf": 5}, "Field 'ebnf': expected text"),
    ({"structured_outputs": {"structural_tag": "{}"}}, "structural_tag is not possible"),
    ({"structured_outputs": {"json": {}, "whitespace_pattern": " "}}, "whitespace_pattern"),
    ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "only one constraint"),
    ({"structured_outputs": {"regex": "a"}, "grammar": "b"}, "only one constraint"),
    ({"structured_outputs": "a"}, "expected an object"),
    ({"structured_outputs": {"jsn": {"type": "object"}}}, "there is no constraint 'jsn'"),
    ({"structured_outputs": {"choice": [""]}}, "expected a text, and not only an empty one"),
    ({"guided_choice": ["a", 5]}, "expected a text or a list of texts"),
    ({"bad_words": 5}, "bad_words"),
]


@some_dialects
def test_forms_of_every_spelling(client: httpx.Client, engine: FakeEngine, path: str) -> None:
    for fields, notation, text in FORMS:
        answer = client.post(path, json={**DIALECTS[path], **fields})
        assert answer.status_code < 300, (fields, answer.text)
        assert getattr(engine.submitted[-1].sampling[0], notation) == text


@some_dialects
def test_forms_that_cannot_be_had(client: httpx.Client, path: str) -> None:
    for fields, words in NO_FORMS:
        answer = client.post(path, json={**DIALECTS[path], **fields})
        assert answer.status_code == 400, (fields, answer.text)
        assert words in answer.text


def test_the_text_follows_an_ebnf_of_several_lines(real: httpx.Client) -> None:
    sql = (
        "\n    root ::= select_statement\n\n    select_statement ::= \"SELECT \" column\n"
        '      " from " table  # over two lines\n    column ::= "col_1 " | "col_2 "\n'
        '    table ::= "table_1" [\\x41-C\\-]{2}\n'
    )  # fmt: skip
    for name, value in (("ebnf", sql), ("guided_grammar", sql), ("structured_outputs", {"grammar": sql})):
        answer = real.post("/v1/completions", json={"model": "m", "prompt": "a", "seed": 3, name: value})
        text = answer.json()["choices"][0]["text"]
        assert text[:13] in ("SELECT col_1 ", "SELECT col_2 ") and text[13:26] == " from table_1", text
        assert len(text) == 28 and set(text[26:]) <= set("ABC-")


def test_bad_words_never_come(real: httpx.Client) -> None:
    body = {"model": "m", "prompt": "Once upon a time,", "max_tokens": 40, "temperature": 0}
    free = real.post("/v1/completions", json=body).json()["choices"][0]["text"]
    word = next(word for word in free.split() if word.isalpha() and len(word) > 2)
    held = real.post("/v1/completions", json={**body, "bad_words": [word]}).json()["choices"][0]["text"]
    assert f" {word.lower()}" not in f" {held.lower()}"


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
    rows = [row for row in ENDPOINTS if row.body and row.body.get("required") and "{" not in row.paths[0]]
    assert len(rows) > 20
    for row in rows:
        assert row.body
        for path in row.paths:
            answer = real.request(row.method, path, json={"model": None, "temperature": 1})
            assert answer.status_code == 400, (path, answer.text)
            assert f"`{row.body['required'][0]}` is missing" in answer.text, path
    real.get("/health").raise_for_status()
    id = real.post("/srb/v1/requests", json={"prompt": "Once", "n": 1, "max_tokens": 1}).json()["id"]
    for verb, field in (("branches/0/append", "text"), ("unexplored", "token")):
        answer = real.post(f"/srb/v1/requests/{id}/{verb}", json={})
        assert answer.json() == {"error": f"`{field}` is missing"}
