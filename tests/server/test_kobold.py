"""KoboldAI's and KoboldCpp's interface, field by field."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from srbwriter.engine.types import Request, Sampling
from srbwriter.server.dialects.kobold import USUAL
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_keys import KEYS, as_

BODY: dict[str, Any] = {"prompt": "Once upon a time,", "max_length": 6}


def results(client: httpx.Client, **more: Any) -> list[dict[str, Any]]:
    answer = client.post("/api/v1/generate", json={**BODY, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["results"]


def sampling_of(request: Request) -> Sampling:
    given = request.sampling
    return given if isinstance(given, Sampling) else given[0]


def assert_usual(request: Request, usual: Mapping[str, Any]) -> None:
    for name, value in usual.items():
        record = (
            request if name == "overflow" else request.stop if name == "max_tokens" else sampling_of(request)
        )
        assert getattr(record, name) == value, name


def events(wire: bytes) -> list[dict[str, Any]]:
    frames = wire.decode().split("\n\n")
    assert frames.pop() == ""
    frames = [frame for frame in frames if not frame.startswith(":")]
    assert all(frame.startswith("event: message\ndata: ") for frame in frames)
    return [json.loads(frame.split("data: ", 1)[1]) for frame in frames]


# ---- generate


def test_an_answer(client: httpx.Client) -> None:
    text = {"text": " there was a cat. The", "finish_reason": "length", "logprobs": None}
    assert results(client) == [{**text, "prompt_tokens": 6, "completion_tokens": 6}]
    assert [one["text"] for one in results(client, n=5)] == [text["text"]] * 5


def test_what_is_left_out_is_what_its_clients_mean_by_that(client: httpx.Client, engine: FakeEngine) -> None:
    client.post("/api/v1/generate", json={"prompt": "Once"})
    assert_usual(engine.submitted[-1], USUAL)


def test_its_own_spellings(client: httpx.Client, engine: FakeEngine) -> None:
    results(
        client, rep_pen=1.2, rep_pen_range=64, typical=0.9, sampler_seed=7,
        sampler_order=[6, 0, 1, 3, 4, 2, 5], stop_sequence=["!"], use_default_badwordsids=True,
        max_context_length=300, dynatemp_range=0.3,
    )  # fmt: skip
    asked = engine.submitted[-1]
    one = sampling_of(asked)
    assert one.repeat_penalty == 1.2
    assert (one.repeat_last_n, one.typical_p, one.seed, one.dynatemp_range) == (64, 0.9, 7, 0.3)
    assert one.samplers == ("penalties", "top_k", "typ_p", "top_p", "min_p", "temperature")
    assert not isinstance(asked.stop, tuple) and asked.stop.strings == ("!",) and asked.stop.ignore_eog
    assert asked.context == 300


def test_memory_stands_before_and_stays(client: httpx.Client, engine: FakeEngine) -> None:
    results(client, memory="A cat. ", prompt="Once")
    asked = engine.submitted[-1]
    assert asked.prompt == "A cat. Once"
    assert asked.n_keep == len(engine.tokenize("A cat. ", add_bos=True))


def test_stop_texts_are_cut_off_unless_they_shall_stay(client: httpx.Client) -> None:
    stop = {"stop_sequence": [" cat"], "max_length": 20}
    assert results(client, **stop)[0]["text"] == " there was a"
    assert results(client, **stop, trim_stop=False)[0]["text"] == " there was a cat"
    assert results(client, **stop)[0]["finish_reason"] == "stop"


# ---- streams


def test_a_stream(client: httpx.Client) -> None:
    path = "/api/extra/generate/stream"
    answer = client.post(path, json=BODY)
    assert answer.headers["content-type"].startswith("text/event-stream")
    reply = events(answer.content)
    assert "".join(one["token"] for one in reply) == " there was a cat. The"
    assert reply[-1] == {"token": "", "finish_reason": "length"}
    assert {one["finish_reason"] for one in reply[:-1]} == {None}
    reply = events(client.post(path, json={**BODY, "logprobs": True}).content)
    assert [one["token"] for one in reply] == [" there", " was", " a", " cat", ".", " The", ""]
    assert reply[0]["top_logprobs"][0].items() >= {"token": " there", "logprob": -0.5}.items()
    reply = events(client.post(path, json={**BODY, "n": 2}).content)
    for index in range(2):
        own = [one for one in reply if one["index"] == index]
        assert "".join(one["token"] for one in own) == " there was a cat. The"


# ---- looking on, and stopping


def test_what_is_written_so_far_and_stopping_by_name(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 2
    path = "/api/extra/generate/stream"
    with (
        client.stream("POST", path, json={**BODY, "genkey": "K2"}) as other,
        client.stream("POST", path, json={**BODY, "genkey": "K1", "logprobs": True}) as mine,
    ):
        read = other.iter_raw(), mine.iter_raw()  # a reader that is let go closes its connection
        assert all(next(one) for one in read)
        for body in ({"genkey": "K1"}, None):
            so_far = client.post("/api/extra/generate/check", json=body).json()
            assert so_far["results"][0]["text"] in (" there", " there was")
        missing = client.post("/api/extra/generate/check", json={"genkey": "nobody's"}).json()
        assert missing == {"results": [{"text": ""}]}
        likely = client.post("/api/extra/last_logprobs", json={"genkey": "K1"})
        assert likely.json()["logprobs"]["tokens"][0] == " there"
        client.post("/api/extra/abort", json={"genkey": "K1"})
        assert engine.cancel_seen.wait(30)
        assert engine.cancelled == [2] and not engine.generations[0].done
        engine.release()


def test_stopping_without_a_body_ends_what_this_client_asked_for(serve: Serve, engine: FakeEngine) -> None:
    engine.hold = 2
    with httpx.Client(base_url=serve().url, timeout=30) as own:
        with own.stream("POST", "/api/extra/generate/stream", json=BODY) as answer:
            pieces = answer.iter_bytes()
            begun = next(pieces)
            assert own.post("/api/extra/abort").json() == {"success": "true", "done": "true"}
            reply = events(begun + b"".join(pieces))
        assert "".join(one["token"] for one in reply) == " there was" and reply[-1]["finish_reason"] == "stop"
        assert own.post("/api/extra/abort").json() == {"success": "false", "done": "true"}


ABORTS = [("/api/extra/abort", {}), ("/v1/internal/stop-generation", None)]


@pytest.mark.parametrize(("path", "body"), ABORTS)
def test_stopping_never_reaches_another_key_or_the_terminal(
    serve: Serve, engine: FakeEngine, path: str, body: Any
) -> None:
    """Not even with an admin's key, which sees and may end by name what others asked for."""
    engine.hold = 1
    terminals = engine.submit(Request(prompt="Once"))
    url = serve(api_keys=KEYS).url
    path_of_mine = "/api/extra/generate/stream"
    with (
        httpx.Client(base_url=url, timeout=30) as http,
        as_(http, "s1") as anna, as_(http, "s2") as ben, as_(http, "s3") as chief,
        anna.stream("POST", path_of_mine, json=BODY) as mine,
    ):  # fmt: skip
        pieces = mine.iter_raw()
        assert next(pieces)
        for other in (ben, chief):
            assert other.post(path, json=body).status_code == 200
        assert engine.cancelled == []
        assert anna.post(path, json=body).status_code == 200
        assert engine.cancel_seen.wait(30)
        assert engine.cancelled == [2]
    assert not terminals.done
    engine.release()


# ---- what else it asks


def test_what_never_changes(client: httpx.Client) -> None:
    for path, answer in {
        "/api/v1/model": {"result": "fake"},
        "/api/v1/info/version": {"result": "1.2.5"},
        "/api/v1/config/max_context_length": {"value": 512},
        "/api/extra/true_max_context_length": {"value": 512},
        "/api/extra/preloadstory": {},
    }.items():
        assert client.get(path).json() == answer
    # SillyTavern streams where this result sorts behind 1.30, and sends stop texts from 1.2.2 on.
    version = client.get("/api/extra/version").json()
    assert version["result"] > "1.30" and version["protected"] is False


def test_tokens(client: httpx.Client, engine: FakeEngine) -> None:
    counted = client.post("/api/extra/tokencount", json={"prompt": "Once upon"}).json()
    assert counted == {"value": 3, "ids": engine.tokenize("Once upon", add_bos=True)}
    plain = client.post("/api/extra/tokencount", json={"prompt": "Once upon", "special": False}).json()
    assert plain["ids"] == counted["ids"][1:]
    wrong = client.post("/api/extra/tokencount", json={"prompt": None})
    assert (wrong.status_code, wrong.json()["value"]) == (400, -1)
