"""A branch that cannot go on says why in every dialect; a request of which none can is an error."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from srbwriter.engine.types import InvalidRequest
from tests.fakes.engine import FakeEngine

from .wire import frames

WHY = InvalidRequest("grammar", "no token of this model can go on from here")
PATHS = {
    "/v1/completions": {"prompt": "Once", "n": 2, "model": "m"},
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Once"}], "n": 2},
    "/completion": {"prompt": "Once", "n": 2},
}


@pytest.fixture(autouse=True)
def short(engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: " there"
    engine.break_off = {1: WHY}


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_openai(client: httpx.Client, path: str) -> None:
    choices = client.post(path, json=PATHS[path]).json()["choices"]
    assert [choice["finish_reason"] for choice in choices] == ["stop", "error"]
    assert [choice.get("error") for choice in choices] == [None, str(WHY)]
    stream = frames(client.post(path, json={**PATHS[path], "stream": True}).content)
    ends = {
        choice["index"]: choice
        for frame in stream[:-1]
        for choice in frame["choices"]
        if choice["finish_reason"]
    }
    assert [ends[k]["finish_reason"] for k in (0, 1)] == ["stop", "error"]
    assert [ends[k].get("error") for k in (0, 1)] == [None, str(WHY)]


@pytest.mark.parametrize("path", PATHS)
def test_a_request_of_which_no_branch_can_go_on_is_an_error(
    client: httpx.Client, engine: FakeEngine, path: str
) -> None:
    engine.break_off = {0: WHY, 1: WHY}
    body: dict[str, Any] = PATHS[path]
    answer = client.post(path, json=body)
    assert answer.status_code == 400 and "no token of this model" in answer.json()["error"]["message"]
    stream = client.post(path, json={**body, "stream": True})  # nothing may have been sent yet when it fails
    reply = frames(stream.content)[-1] if stream.status_code == 200 else stream.json()
    assert "no token of this model" in reply["error"]["message"]
