"""What strangers meet: places in a queue, work of others, values for each branch, words for a refusal."""

from __future__ import annotations

import json
import re
from typing import Any

import httpx
import pytest

from srbwriter.engine.types import Request
from tests.fakes.engine import EOS, FakeEngine

from .conftest import Serve
from .wire import connected, frames, lines, until_closed

CHAT = {"messages": [{"role": "user", "content": "Once"}], "max_tokens": 3}
SHORT = {"prompt": "Once", "n": 2, "max_tokens": 3}


# ---- all work is seen


def test_slots_see_the_work_of_every_dialect(serve: Serve, engine: FakeEngine) -> None:
    body = {**SHORT, **CHAT, "n": 4, "stream": True}
    with httpx.Client(base_url=serve(max_n=4).url, timeout=30) as http:
        for path in (
            "/completion", "/v1/completions", "/v1/chat/completions", "/srb/v1/completions",
            "/srb/v1/requests",
        ):  # fmt: skip
            engine.hold_again(1)
            with http.stream("POST", path, json=body) as answer:
                pieces = answer.iter_bytes()
                next(pieces)
                assert http.get("/health").json()["slots_processing"] == 4, path
                assert http.get("/health?fail_on_no_slot=1").status_code == 503
                assert http.get("/slots?fail_on_no_slot=1").status_code == 503
                assert [slot["is_processing"] for slot in http.get("/slots").json()] == [True] * 4
                engine.release()
                list(pieces)
            engine.generations[-1].wait(30)


def test_slots_see_what_the_terminal_writes(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 1
    with httpx.Client(base_url=serve(max_n=64).url, timeout=30) as http:
        engine.submit(Request("typed in the terminal", n=60))
        http.post("/srb/v1/requests", json={**SHORT, "n": 3, "max_tokens": 9})
        value = http.get("/health").json()
        assert (value["slots_idle"], value["slots_processing"]) == (1, 63)
        assert sum(slot["is_processing"] for slot in http.get("/slots").json()) == 63
        engine.release()


# ---- waiting


def test_a_request_that_waits_knows_its_place(serve: Serve, engine: FakeEngine) -> None:
    engine.queue = True
    with httpx.Client(base_url=serve(ping_seconds=0.1).url, timeout=30) as http:
        first = http.post("/srb/v1/requests", json=SHORT)
        second = http.post("/srb/v1/requests", json=SHORT)
        assert (first.headers["x-queue"], second.headers["x-queue"]) == ("0", "1")
        assert http.get(second.headers["location"]).json()["queue"] == 1
        with http.stream(
            "POST", "/completion", json={**SHORT, "stream": True, "return_progress": True}
        ) as native:
            assert native.headers["x-queue"] == "2"
            natives = native.iter_lines()
            reply = next(natives)
            assert json.loads(reply.removeprefix("data: "))["prompt_progress"]["queue"] == 2
            with http.stream("POST", "/srb/v1/completions?rich=1&sse=1", json=SHORT) as rich:
                assert rich.headers["x-queue"] == "3"
                riches = rich.iter_lines()
                reply = lines(next(riches))[0]
                assert (reply["event"], reply["place"]) == ("queue", 3)
                with http.stream("POST", "/v1/chat/completions", json={**CHAT, "stream": True}) as chat:
                    assert chat.headers["x-queue"] == "4"
                    chats = chat.iter_lines()
                    assert next(chats) == ": waiting, 4 before this one"
                    engine.admit()
                    assert "data: [DONE]" in list(chats)
                assert lines("\n".join(riches))[-1]["event"] == "done"
            assert any('"stop":true' in line for line in natives)
        assert http.get(second.headers["location"]).json()["queue"] == 0
        assert http.post("/completion", json=SHORT).headers["x-queue"] == "0"


# ---- values for each branch


def test_every_branch_may_have_values_of_its_own(client: httpx.Client, engine: FakeEngine) -> None:
    body = {
        "prompt": "Once", "temperature": [0.1, 1.5], "seed": [7, 3], "max_tokens": [2, 5],
        "stop": [["cat"], []], "top_k": 9, "sampler_seed": None, "grammar": [None, 'root ::= [a-z ]+'],
        "samplers": [["top_k"], ["min_p", "top_p"]], "boundary": [None, "line"],
    }  # fmt: skip
    for path in ("/srb/v1/completions", "/srb/v1/requests"):
        answer = client.post(path, json=body)
        assert answer.status_code in (200, 202), answer.text
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


def test_lists_that_fit_no_branches_are_named(client: httpx.Client) -> None:
    for fields, named in (
        ({"n": 3, "temperature": [0.1, 1.5]}, "2 values for 3"),
        ({"temperature": [0.1, 1.5], "seed": [1, 2, 3]}, "equally long"),
        ({"temperature": ["hot", 1.5]}, "temperature"),
        ({"seed": [1] * 65}, "'n'"),
    ):
        answer = client.post("/srb/v1/completions", json={"prompt": "Once", **fields})
        assert answer.status_code == 400 and named in answer.json()["error"]


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


def test_a_context_of_ones_own_is_read(client: httpx.Client, engine: FakeEngine) -> None:
    for name in ("truncation_length", "num_ctx", "max_context_length", "context"):
        body = {"model": "m", **SHORT}
        assert client.post("/v1/completions", json={**body, name: 64}).status_code == 200
        assert engine.submitted[-1].context == 64
        assert client.post("/v1/completions", json={**body, name: 10**7}).status_code == 400


# ---- answers say what happened


def test_details_of_answers(client: httpx.Client) -> None:
    """Parts of a message are joined, ends that are ignored are biases, and there is a fingerprint."""
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    prompt = client.post("/apply-template", json={"messages": [{"role": "user", "content": parts}]}).json()
    assert "one\ntwo" in prompt["prompt"]
    value = client.post("/completion", json={**SHORT, "n": 1, "ignore_eos": True}).json()
    assert {"bias": None, "token": EOS} in value["generation_settings"]["logit_bias"]
    for path, body in (("/v1/completions", {"model": "m", **SHORT}), ("/v1/chat/completions", CHAT)):
        assert re.fullmatch(r"b\d+-[0-9a-f]+", client.post(path, json=body).json()["system_fingerprint"])
    assert re.fullmatch(r"b\d+-[0-9a-f]+", client.get("/props").json()["build_info"])


def test_chat_tells_times_progress_and_everything(client: httpx.Client) -> None:
    whole = client.post("/v1/chat/completions", json={**CHAT, "verbose": True}).json()
    assert whole["timings"]["predicted_n"] == 3 and whole["__verbose"]["tokens_predicted"] == 3
    assert "__verbose" not in client.post("/v1/chat/completions", json=CHAT).json()
    asked = {"stream": True, "timings_per_token": True, "return_progress": True, "verbose": True}
    chunks = frames(client.post("/v1/chat/completions", json={**CHAT, **asked}).content)[:-1]
    empty = {"role": "assistant", "content": None}
    read = [chunk for chunk in chunks if "prompt_progress" in chunk]
    assert read == chunks[: len(read)] and [chunk["choices"][0]["delta"] for chunk in read] == [empty] * len(
        read
    )
    role, *pieces = chunks[len(read) :]
    assert role["choices"][0]["delta"] == empty and "timings" not in role
    assert all("timings" in chunk for chunk in (*read, *pieces))
    assert chunks[-1]["choices"][0]["finish_reason"] and chunks[-1]["__verbose"]["stop"] is True
    plain = frames(client.post("/v1/chat/completions", json={**CHAT, "stream": True}).content)[:-1]
    assert ["timings" in chunk for chunk in plain] == [False] * (len(plain) - 1) + [True]
    text = {"model": "m", **SHORT, "stream": True, "return_progress": True}
    first = frames(client.post("/v1/completions", json=text).content)[0]
    assert "prompt_progress" in first and first["choices"][0]["text"] == ""


def test_names_and_tags_of_the_model(serve: Serve) -> None:
    with httpx.Client(base_url=serve(alias="tale, tail", tags="story,small").url) as http:
        card = http.get("/v1/models").json()["data"][0]
        assert (card["id"], card["aliases"], card["tags"]) == ("tale", ["tale", "tail"], ["story", "small"])
        assert http.get("/v1/models/tail").status_code == 200


TURN = "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>Once<|END_OF_TURN_TOKEN|>"


@pytest.mark.parametrize(
    ("name", "prompt", "end"),
    [
        ("llama3", "<|start_header_id|>user<|end_header_id|>\n\nOnce<|eot_id|>", "<|eot_id|>"),
        ("command-r", TURN, "<|END_OF_TURN_TOKEN|>"),
        ("vicuna", "USER: Once", "</s>"),
        ("gemma", "<start_of_turn>user\nOnce<end_of_turn>", "<end_of_turn>"),
    ],
)
def test_templates_by_name(serve: Serve, engine: FakeEngine, name: str, prompt: str, end: str) -> None:
    with httpx.Client(base_url=serve(chat_template=name).url) as http:
        assert prompt in http.post("/apply-template", json=CHAT).json()["prompt"]
        assert http.post("/v1/chat/completions", json=CHAT).status_code == 200
        assert end in engine.submitted[-1].stop.strings
        begun = [*CHAT["messages"], {"role": "assistant", "content": "Then"}]
        assert http.post("/apply-template", json={"messages": begun}).json()["prompt"].endswith("Then")


# ---- connections


def test_the_oldest_without_a_head_makes_room(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 1
    handle = serve(max_connections=6)
    with httpx.Client(base_url=handle.url, timeout=30) as busy:
        with busy.stream("POST", "/completion", json={**SHORT, "stream": True}) as answer:
            pieces = answer.iter_bytes()
            assert next(pieces)
            plugs = [connected(handle.port) for _ in range(12)]
            for plug in plugs:
                plug.sendall(b"GET /health HTTP/1.1\r\n")
            with httpx.Client(base_url=handle.url, timeout=30) as other:
                assert other.get("/health").status_code == 200
            until_closed(plugs[0])
            until_closed(plugs[1])
            engine.release()
            assert b'"stop":true' in b"".join(pieces)
        for plug in plugs:
            plug.close()


# ---- on the bundled model


def test_a_prompt_is_cut_to_the_context_that_is_asked_for(real: httpx.Client) -> None:
    text = "Once upon a time there was a cat. " * 40
    whole = real.post("/completion", json={"prompt": text, "n_predict": 8}).json()["tokens_evaluated"]
    for n_keep in (0, 4):
        body = {"prompt": text, "n_predict": 8, "truncation_length": 64, "n_keep": n_keep}
        cut = real.post("/completion", json=body).json()
        assert cut["tokens_evaluated"] == 56 < whole and cut["truncated"]
        assert cut["prompt"].endswith("there was a cat. ")


def test_progress_comes_before_the_prompt_is_read(real: httpx.Client) -> None:
    body = {
        "prompt": "It was a long and winding road to the castle. " * 100, "n_predict": 1, "stream": True,
        "return_progress": True, "cache_prompt": False, "overflow": "truncate",
    }  # fmt: skip
    chunks = frames(real.post("/completion", json=body).content)
    reply = [chunk for chunk in chunks if "prompt_progress" in chunk]
    assert len(reply) > 2
    first = {**reply[0]["timings"], **reply[0]["prompt_progress"]}
    assert all(first[name] == 0 for name in ("processed", "prompt_n", "prompt_ms", "time_ms"))
    assert reply[-1]["prompt_progress"]["processed"] == reply[-1]["prompt_progress"]["total"]
    for chunk in reply:
        progress, times = chunk["prompt_progress"], chunk["timings"]
        assert times["prompt_n"] == progress["processed"] - progress["cache"]
        assert (times["cache_n"], times["predicted_n"]) == (progress["cache"], 0) and times["prompt_ms"] >= 0
