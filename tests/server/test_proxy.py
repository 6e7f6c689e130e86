"""A server in front of another srbwriter: what its clients are told of what goes wrong over there."""

from __future__ import annotations

from collections.abc import Iterator
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

from .wire import frames


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


def test_a_proxy_tells_what_the_engine_behind_it_lacks() -> None:
    with closing(Scripted("vllm")) as there, RemoteEngine.connect(RemoteOptions(there.url)) as engine:
        here = started(engine)
        with RemoteEngine.connect(RemoteOptions(here.url)) as beyond:
            assert beyond.profile.dialect == "srb"
            generation = beyond.submit(Request(PROMPT, n=2, logprobs=0, stop=Stop(max_tokens=30))).wait(60)
            assert [branch.text for branch in generation.branches] == [STORY[:30]] * 2
            assert [one.logprob for one in generation.branches[0].logprobs] == [-0.5] * 30
            assert engine.capabilities.missing.items() <= beyond.capabilities.missing.items()
            with pytest.raises(NotSupported, match="vLLM 0 does not know banned_phrases"):
                beyond.submit(Request(PROMPT, sampling=Sampling(banned_phrases=("x",))))
        here.stop(20)
