"""A server in front of another srbwriter: what its clients are told of what goes wrong over there."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import httpx
import pytest

from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import EngineOptions, NotSupported, Request, Sampling, Stop
from srbwriter.server import Loaded, ServerHandle, ServerSettings, start_in_thread
from tests.engine.scripted import PROMPT, STORY, Scripted
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .test_handles import follow
from .wire import frames, wait_until


def started(engine: Any) -> ServerHandle:
    return start_in_thread(Loaded(engine), ServerSettings(port=0, access_log=False))


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[httpx.Client, httpx.Client]]:
    """Clients of a server with a model, and of one that is connected to it."""
    with load_engine(short_model(), EngineOptions(n_ctx=512, gpu_layers=0)) as model:
        there = started(model)
        with RemoteEngine.connect(RemoteOptions(there.url, first_wait=0.01)) as engine:
            here = started(engine)
            with (
                httpx.Client(base_url=there.url, timeout=60) as plain,
                httpx.Client(base_url=here.url, timeout=60) as proxy,
            ):
                yield plain, proxy
            here.stop(20)
        there.stop(20)


MISTAKES: list[tuple[str, dict[str, Any]]] = [
    ("grammar", {"grammar": "x"}),
    ("banned_phrases", {"banned_phrases": "\0"}),
    ("json_schema", {"json_schema": {"$ref": "#/nowhere"}}),
    ("json_schema", {"json_schema": "x"}),
    ("json_schema", {"json_schema": "[]"}),
    ("regex", {"regex": "("}),
]
PATHS = ("/completion", "/v1/completions", "/srb/v1/completions", "/api/v1/generate")


@pytest.mark.parametrize(("field", "wrong"), MISTAKES)
def test_a_clients_mistake_is_told_as_one(
    servers: tuple[httpx.Client, httpx.Client], field: str, wrong: dict[str, Any]
) -> None:
    plain, proxy = servers
    body = {"prompt": "x", "model": "m", "max_tokens": 1, **wrong}
    for path in PATHS:
        own, passed = (server.post(path, json=body) for server in (plain, proxy))
        assert (own.status_code, passed.status_code) == (400, 400), path
        assert f"Field '{field}'" in passed.text and "127.0.0.1" not in passed.text
        if path == "/v1/completions":
            assert passed.json()["error"]["param"] == field
            assert passed.json()["error"]["type"] == "invalid_request_error"


def test_a_branch_that_is_refused_over_there_fails_beside_the_others(
    servers: tuple[httpx.Client, httpx.Client],
) -> None:
    body = {"prompt": "x", "max_tokens": 2, "grammar": ['root ::= "a"', "bad"], "stop": []}
    events = frames(servers[1].post("/srb/v1/completions?sse=1&rich=1", json=body).content)
    ends = {event["index"]: event for event in events if event["event"] == "stop"}
    assert ends[0]["reason"] != "error"
    assert ends[1]["reason"] == "error" and ends[1]["error"].startswith("Field 'grammar'")


def test_what_could_have_stood_in_a_place_is_told_from_elsewhere(
    servers: tuple[httpx.Client, httpx.Client],
) -> None:
    reply: list[dict[str, Any]] = []
    for server in servers:
        body = {"prompt": "Once upon a time,", "n": 1, "max_tokens": 6, "temperature": 0, "stop": []}
        path = server.post("/srb/v1/requests", json=body).headers["location"]
        follow(server, path)
        answer = server.post(f"{path}/branches/0/tokens", json={"k": 3, "from": 1, "to": 4})
        assert answer.status_code == 200, answer.text
        reply.append(answer.json())
    (own, passed) = ([token for token in one["tokens"]] for one in reply)
    assert [token["at"] for token in passed] == [1, 2, 3]
    for one, other in zip(own, passed, strict=True):
        assert (one["id"], one["text"]) == (other["id"], other["text"])
        assert one["logprob"] == pytest.approx(other["logprob"], abs=0.05)
        assert [t["id"] for t in one["alternatives"]] == [t["id"] for t in other["alternatives"]]
        assert len(one["alternatives"]) == 3


def test_tokens_of_a_prompt_are_told_beside_what_could_follow(
    servers: tuple[httpx.Client, httpx.Client],
) -> None:
    for server in servers:
        ids = server.post("/tokenize", json={"content": "Once upon a time", "add_special": True}).json()
        body = {"prompt": ids["tokens"], "k": 2, "from": 2}
        reply = server.post("/srb/v1/next", json=body).json()
        assert [one["id"] for one in reply["prompt"]] == ids["tokens"][2:]
        assert all(one["logprob"] < 0 and len(one["top"]) == 2 for one in reply["prompt"])
        assert len(reply["tokens"]) == 2
        assert "prompt" not in server.post("/srb/v1/next", json={"prompt": "x"}).json()


def test_a_proxy_whose_engine_does_not_tell_its_vocabulary_is_written_with() -> None:
    with closing(Scripted("vllm")) as there, RemoteEngine.connect(RemoteOptions(there.url)) as engine:
        here = started(engine)
        with RemoteEngine.connect(RemoteOptions(here.url)) as beyond:
            assert beyond.profile.dialect == "srb"
            rule = Stop(max_tokens=30)
            generation = beyond.submit(Request(PROMPT, n=2, heal=True, stop=rule)).wait(60)
            assert generation.healed == PROMPT[-1]
            assert [branch.text for branch in generation.branches] == [STORY[:29]] * 2
            assert [beyond.detokenize(branch.ids) for branch in generation.branches] == ["e" + STORY[:29]] * 2
            assert beyond.token_bytes(ord("x")) == b"x"
            can = beyond.capabilities
            assert engine.capabilities.missing.items() <= can.missing.items()
            assert can.max_logprobs == 20 and can.has("without") and not can.has("banned_phrases")
            with pytest.raises(NotSupported, match="vLLM 0 does not know banned_phrases"):
                beyond.submit(Request(PROMPT, sampling=Sampling(banned_phrases=("x",))))
        here.stop(20)


def test_others_are_answered_while_somebody_waits_for_an_engine_elsewhere() -> None:
    with closing(Scripted("vllm")) as there, RemoteEngine.connect(RemoteOptions(there.url)) as engine:
        here = started(engine)
        there.reads.clear()
        while there.reading.acquire(blocking=False):
            pass
        with ThreadPoolExecutor() as pool, httpx.Client(base_url=here.url, timeout=60) as proxy:
            body = {"prompt": PROMPT, "max_tokens": 5}
            waiting = pool.submit(lambda: httpx.post(f"{here.url}/completion", json=body, timeout=60).json())
            assert there.reading.acquire(timeout=60)
            try:
                assert proxy.get("/v1/models", timeout=20).status_code == 200 and not waiting.done()
            finally:
                there.reads.set()
            assert waiting.result(60)["content"] == STORY[:5]
        here.stop(20)


@pytest.mark.full
def test_health_tells_whether_somebody_is_there(servers: tuple[httpx.Client, httpx.Client]) -> None:
    assert servers[1].get("/health").status_code == 200
    with closing(Scripted("vllm")) as there:
        port = there.server_address[1]
        with RemoteEngine.connect(RemoteOptions(there.url, first_wait=0.01)) as engine:
            here = started(engine)
            with httpx.Client(base_url=here.url, timeout=60) as proxy:
                assert proxy.get("/health").json()["status"] == "ok"
                there.close()
                wait_until(lambda: proxy.get("/health").status_code == 503)
                answer = proxy.get("/health")
                assert answer.json()["error"]["type"] == "unavailable_error"
                assert "no connection" in answer.text and "127.0.0.1" not in answer.text
                with closing(Scripted("vllm", port)):
                    wait_until(lambda: proxy.get("/health").status_code == 200)
                    body = {"prompt": PROMPT, "max_tokens": 5}
                    assert proxy.post("/completion", json=body).json()["content"] == STORY[:5]
            here.stop(20)
