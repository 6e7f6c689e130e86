"""Branches that are steered while they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.fakes.engine import FakeEngine

Events = Iterator[dict[str, Any]]


@contextmanager
def writing(http: httpx.Client, **body: Any) -> Iterator[tuple[str, Events]]:
    """A request that is being written: its path, and its events after the first."""
    body = {"prompt": "Once", "n": 2, "max_tokens": 5, "stop": [], **body}
    with http.stream("POST", "/srb/v1/completions?rich=1", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        events = (json.loads(line.removeprefix("data: ")) for line in lines)
        start = next(events)
        assert start["id"] == answer.headers["x-request-id"]
        yield f"/srb/v1/requests/{start['id']}", events


def written(http: httpx.Client, **body: Any) -> list[dict[str, Any]]:
    """The events of a request after the first."""
    with writing(http, **body) as (_, events):
        return list(events)


def text_of(events: list[dict[str, Any]], index: int) -> str:
    text = ""
    for event in events:
        if event.get("index") == index and event["event"] == "stream":
            text += event["text"]
        if event.get("index") == index and event["event"] == "cut":
            text = text[: event["chars"]]
    return text


def held(events: Events, tokens: int) -> list[dict[str, Any]]:
    """The events until all branches together have so many tokens."""
    seen = [next(events)]
    while sum(len(event.get("ids", ())) for event in seen) < tokens:
        seen.append(next(events))
    return seen


def test_a_request_can_be_read_until_it_has_ended(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(2)
    with writing(client) as (path, events):
        held(events, 4)
        value = client.get(path).json()
        assert (value["completion_tokens"], value["prompt_tokens"]) == (4, 2)
        assert [(one["text"], one["state"]) for one in value["branches"]] == [(" there was", "writing")] * 2
        assert client.get("/srb/v1/requests").json()["data"] == [value]
        engine.release()
        assert [*events][-1]["event"] == "done"
    assert client.get(path).status_code == 404
    assert client.get("/srb/v1/requests").json()["data"] == []


def test_reroll_starts_the_same_branch_over(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(2)
    with writing(client) as (path, events):
        seen = held(events, 4)
        engine.script = lambda prompt, branch: " The dog slept." if branch == 0 else " there was a cat."
        answer = client.post(path + "/branches/0/reroll", json={"temperature": 0.1, "seed": 77})
        assert (answer.status_code, answer.json()["verb"]) == (200, "reroll")
        engine.release()
        seen += events
    assert {"event": "cut", "index": 0, "chars": 0, "tokens": 0} in seen
    assert [text_of(seen, index) for index in (0, 1)] == [" The dog slept.", " there was a cat."]
    branch = engine.generations[-1].branches[0]
    assert (branch.seed, branch.sampling.temperature) == (77, 0.1)


def test_stop_keeps_and_kill_ends_one_branch_only(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(2)
    with writing(client, n=3) as (path, events):
        client.post(path + "/branches/0/stop")
        client.post(path + "/branches/1/kill")
        engine.release()
        stops = {event["index"]: event["reason"] for event in events if event["event"] == "stop"}
    assert stops == {0: "stopped", 1: "killed", 2: "length"}


def test_rewind_extend_and_change(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(2)
    with writing(client, n=1) as (path, events):
        seen = held(events, 2)
        branch = path + "/branches/0"
        for verb, body in (
            ("rewind", {"chars": 3}), ("extend", {"max_tokens": 3}),
            ("change", {"temperature": 0.5, "boundary": "line"}),
        ):  # fmt: skip
            answer = client.post(f"{branch}/{verb}", json=body)
            assert answer.json() == {"id": path.rpartition("/")[2], "index": 0, "verb": verb}
        note = client.post(f"{branch}/resume", json={}).json()["note"]
        assert note == "resume does nothing: branch 0 is still writing"
        engine.release()
        seen += events
    assert text_of(seen, 0).startswith(" there")
    changed = engine.generations[-1].branches[0]
    assert (changed.sampling.temperature, changed.stop_rule.boundary) == (0.5, "line")


def test_cancel_ends_all(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(1)
    with writing(client) as (path, events):
        assert client.post(path + "/cancel").json()["verb"] == "cancel"
        assert [*events][-1]["event"] == "done"


def test_what_cannot_be_is_said_in_words(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(1)
    with writing(client) as (path, _):
        refused: tuple[tuple[str, Any, int], ...] = (
            ("/srb/v1/requests/nobody/branches/0/stop", {}, 404),
            (f"{path}/branches/2/stop", {}, 404),
            (f"{path}/branches/x/stop", {}, 404),
            (f"{path}/branches/0/dance", {}, 404),
            (f"{path}/branches/0/rewind", {}, 400),
            (f"{path}/branches/0/rewind", {"tokens": 1, "chars": 1}, 400),
            (f"{path}/branches/0/rewind", {"tokens": -1}, 400),
            (f"{path}/branches/0/reroll", {"temperature": "hot"}, 400),
        )
        for where, body, status in refused:
            answer = client.post(where, json=body)
            assert answer.status_code == status, where
            assert isinstance(answer.json()["error"], str)
        misspelt = client.post(f"{path}/branches/0/change", json={"temprature": 1}).json()["note"]
        assert misspelt == "there is no field 'temprature', perhaps 'temperature'"
