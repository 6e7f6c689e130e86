"""What strangers meet: work of others, prompts, values for each branch, words for a refusal."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .wire import frames

CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 3}
SHORT = {"prompt": "Once", "n": 2, "max_tokens": 3}


# ---- all work is seen


def test_slots_see_the_work_of_every_dialect(serve: Serve, engine: FakeEngine) -> None:
    body = {**SHORT, **CHAT, "n": 4, "stream": True}
    with httpx.Client(base_url=serve(max_n=4).url, timeout=30) as http:
        for path in (
            "/completion", "/v1/completions", "/v1/chat/completions", "/srb/v1/completions",
        ):  # fmt: skip
            engine.hold_again(1)
            with http.stream("POST", path, json=body) as answer:
                pieces = answer.iter_bytes()
                next(pieces)
                assert http.get("/health").json()["slots_processing"] == 4, path
                assert http.get("/health").json()["status"] == "no slot available"
                assert http.get("/slots?fail_on_no_slot=1").status_code == 503
                assert [slot["is_processing"] for slot in http.get("/slots").json()] == [True] * 4
                engine.release()
                list(pieces)
            engine.generations[-1].wait(30)


# ---- what a prompt means


def test_a_prompt_of_ids_is_taken_as_it_is(client: httpx.Client, engine: FakeEngine) -> None:
    cases: tuple[tuple[Any, bool], ...] = (
        ("Once", True), ([256, 257], False), (["Once", 257], False), ({"prompt_string": "Once"}, True),
    )  # fmt: skip
    for path in ("/completion", "/v1/completions", "/srb/v1/completions"):
        for prompt, begun in cases:
            assert client.post(path, json={"prompt": prompt, "max_tokens": 2}).status_code == 200
            request = engine.submitted[-1]
            assert request.add_bos is begun, (path, prompt)
            if isinstance(prompt, list):  # a text in front of ids begins as texts do
                assert (request.prompt[0] == engine.bos) is isinstance(prompt[0], str)


# ---- values for each branch


def test_every_branch_may_have_values_of_its_own(client: httpx.Client, engine: FakeEngine) -> None:
    body = {
        "prompt": "Once", "temperature": [0.1, 1.5], "seed": [7, 3], "max_tokens": [2, 5],
        "stop": [["cat"], []], "top_k": 9, "sampler_seed": None, "grammar": [None, 'root ::= [a-z ]+'],
        "samplers": [["top_k"], ["min_p", "top_p"]], "boundary": [None, "line"],
    }  # fmt: skip
    answer = client.post("/srb/v1/completions", json=body)
    assert answer.status_code == 200, answer.text
    request = engine.submitted[-1]
    assert request.n == 2 and isinstance(request.sampling, tuple) and isinstance(request.stop, tuple)
    assert [s.temperature for s in request.sampling] == [0.1, 1.5]
    assert [s.seed for s in request.sampling] == [7, 3]
    assert [s.top_k for s in request.sampling] == [9, 9]
    assert [s.grammar for s in request.sampling] == [None, "root ::= [a-z ]+"]
    assert [s.samplers for s in request.sampling] == [("top_k",), ("min_p", "top_p")]
    assert [(s.max_tokens, s.strings, s.boundary) for s in request.stop] == [
        (2, ("cat",), None), (5, (), "line"),
    ]  # fmt: skip


# ---- what is not done is said


def test_phrases_are_banned_in_every_spelling(client: httpx.Client, engine: FakeEngine) -> None:
    sent: list[tuple[dict[str, Any], tuple[str, ...]]] = [
        ({"banned_strings": ["all at once", ""]}, ("all at once",)),
        ({"banned_tokens": ["all at once"], "banned_strings": ["suddenly"]}, ("suddenly", "all at once")),
        ({"banned_strings": '["a", "b c"]'}, ("a", "b c")),
        ({"banned_strings": "all at once"}, ("all at once",)),
        ({"banned_phrases": ["all at once"]}, ("all at once",)),
        *(({name: empty}, ()) for name in ("banned_strings", "banned_tokens") for empty in ([], "", 0, None)),
    ]
    for path in ("/completion", "/v1/completions", "/api/v1/generate", "/srb/v1/completions"):
        limits = {"max_length": 3} if path.startswith("/api") else {"max_tokens": 3}
        for fields, phrases in sent:
            answer = client.post(path, json={"model": "m", "prompt": "Once", **limits, **fields})
            assert answer.status_code == 200, answer.text
            assert engine.submitted[-1].sampling[0].banned_phrases == phrases, (path, fields)
    for ids in ([5, 6], "5, 6"):
        assert client.post("/completion", json={**SHORT, "banned_tokens": ids}).status_code == 200
        sampling = engine.submitted[-1].sampling[0]
        assert not sampling.banned_phrases and [token for token, _ in sampling.logit_bias] == [5, 6]
    for wrong in (["a"] * 2049, ["a" * 201], [["a"], 5], {"a": 1}):
        answer = client.post("/completion", json={**SHORT, "banned_strings": wrong})
        assert answer.status_code == 400 and "banned_" in answer.json()["error"]["message"]


# ---- answers say what happened


def test_chunks_tell_times(client: httpx.Client) -> None:
    """At the end of a choice and in the chunk with usage; in each chunk where that is asked for."""
    whole = client.post("/v1/chat/completions", json=CHAT).json()
    assert whole["timings"]["predicted_n"] == 3
    asked = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    plain = frames(client.post("/v1/chat/completions", json=asked).content)[:-1]
    assert ["timings" in chunk for chunk in plain] == [False] * (len(plain) - 2) + [True, True]
    asked["timings_per_token"] = True
    each = frames(client.post("/v1/chat/completions", json=asked).content)[:-1]
    assert all("timings" in chunk for chunk in each[1:]) and not each[-1]["choices"]
