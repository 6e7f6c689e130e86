"""Handles on running requests and their branches."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.fakes.engine import FakeEngine


def start(http: httpx.Client, **body: Any) -> str:
    answer = http.post(
        "/srb/v1/requests", json={"prompt": "Once", "n": 2, "max_tokens": 5, "stop": [], **body}
    )
    assert answer.status_code == 202
    assert answer.headers["location"] == f"/srb/v1/requests/{answer.json()['id']}"
    return f"/srb/v1/requests/{answer.json()['id']}"


def follow(http: httpx.Client, path: str, after: int = 0) -> list[dict[str, Any]]:
    """Events of a request until it is done; numbered, one after the other."""
    answer = http.get(path + "/events", params={"after": after})
    assert answer.status_code == 200
    events = []
    for frame in answer.text.split("\n\n")[:-1]:
        if not frame.startswith(":"):
            _, data = frame.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
    return events


def text_of(events: list[dict[str, Any]], index: int) -> str:
    text = ""
    for event in events:
        if event.get("index") == index and event["event"] == "stream":
            text += event["text"]
        if event.get("index") == index and event["event"] == "cut":
            text = text[: event["chars"]]
    return text


def test_a_request_runs_on_its_own_and_is_followed(client: httpx.Client) -> None:
    path = start(client)
    events = follow(client, path)
    assert (events[0]["event"], events[-1]["event"]) == ("start", "done")
    assert text_of(events, 0) == text_of(events, 1) == " there was a cat."
    value = client.get(path).json()
    assert (value["state"], value["count"], value["completion_tokens"]) == ("done", 2, 10)
    assert [branch["text"] for branch in value["branches"]] == [" there was a cat."] * 2
    assert any(one["id"] == value["id"] for one in client.get("/srb/v1/requests").json()["data"])
    alone = follow(client, path + "/branches/1")
    assert {event["index"] for event in alone if "index" in event} == {1}
    assert text_of(alone, 1) == " there was a cat."


def test_reroll_starts_the_same_branch_over(client: httpx.Client, engine: FakeEngine) -> None:
    path = start(client)
    seen = follow(client, path)
    engine.script = lambda prompt, branch: " The dog slept."
    last = client.get(path).json()["events"]
    answer = client.post(path + "/branches/0/reroll", json={"temperature": 0.1, "seed": 77})
    assert (answer.status_code, answer.json()["verb"]) == (202, "reroll")
    more = follow(client, path, last)
    assert more[1] == {"event": "cut", "index": 0, "chars": 0, "tokens": 0}
    assert text_of(seen + more, 0) == " The dog slept."
    assert text_of(seen + more, 1) == " there was a cat."
    branch = engine.generations[-1].branches[0]
    assert (branch.seed, branch.sampling.temperature) == (77, 0.1)


def test_stop_keeps_and_kill_ends_one_branch_only(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 2
    path = start(client, n=3)
    client.post(path + "/branches/0/stop")
    client.post(path + "/branches/1/kill")
    engine.release()
    stops = {e["index"]: e["reason"] for e in follow(client, path) if e["event"] == "stop"}
    assert stops == {0: "stopped", 1: "killed", 2: "length"}


def test_extend_append_and_rewind(client: httpx.Client, engine: FakeEngine) -> None:
    path = start(client, n=1)
    follow(client, path)
    branch = path + "/branches/0"
    assert client.post(branch + "/append", json={"text": " It sat"}).status_code == 202
    assert text_of(follow(client, path), 0) == " there was a cat. It sat"
    assert client.get(branch).json()["text"].startswith(" there was a cat. It sat")
    assert client.post(branch + "/append", json={"text": " and", "go_on": True}).status_code == 202
    assert len(text_of(follow(client, path), 0)) > len(" there was a cat. It sat and")
    assert client.post(branch + "/append", json={"text": " a", "go_on": "perhaps"}).status_code == 400
    assert client.post(branch + "/rewind", json={"chars": 3}).status_code == 202
    follow(client, path)
    assert client.post(branch + "/extend", json={"max_tokens": 3}).status_code == 202
    assert client.post(branch + "/extend", json={"temperature": 0.5, "boundary": "line"}).status_code == 202
    follow(client, path)
    assert engine.generations[-1].branches[0].stop_rule.boundary == "line"


def test_pick_ends_the_others_and_names_the_parent(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 3
    path = start(client)
    with client.stream("GET", path + "/events") as answer:  # until both branches have their three tokens
        seen = ""
        for piece in answer.iter_text():
            seen += piece
            if seen.count('"stream"') == 6:
                break
    picked = client.post(path + "/branches/1/pick").json()
    assert picked["text"] == " there was a"
    engine.release()
    follow(client, path)
    assert client.get(path).json()["picked"] == 1
    more = client.post("/srb/v1/requests", json={"parent": picked["parent"], "n": 1})
    assert more.status_code == 202
    (run,) = engine.submitted[-1].prompt
    assert run.text.endswith("Once there was a")


def test_a_parent_continues_from_where_the_branch_is(client: httpx.Client, engine: FakeEngine) -> None:
    path = start(client)
    follow(client, path)
    for chars, text in ((None, "Once there was a cat. And"), (6, "Once there And")):
        parent = {
            "request": path.rpartition("/")[2],
            "branch": 0,
            **({} if chars is None else {"chars": chars}),
        }
        assert client.post("/srb/v1/requests", json={"parent": parent, "prompt": " And"}).status_code == 202
        assert "".join(run.text for run in engine.submitted[-1].prompt) == text


def test_cancel_and_forget(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client)
    assert client.post(path + "/cancel").status_code == 202
    assert follow(client, path)[-1]["event"] == "done"
    assert client.delete(path).json()["deleted"] is True
    assert client.get(path).status_code == 404


def test_what_cannot_be_is_said_in_words(client: httpx.Client) -> None:
    path = start(client)
    refused: tuple[tuple[str, str, Any, int], ...] = (
        ("GET", "/srb/v1/requests/nobody", None, 404),
        ("GET", f"{path}/branches/2", None, 404),
        ("GET", f"{path}/branches/x", None, 404),
        ("POST", f"{path}/branches/0/dance", {}, 404),
        ("POST", f"{path}/branches/0/pick", {"chars": "many"}, 400),
        ("POST", f"{path}/branches/0/rewind", {}, 400),
        ("POST", f"{path}/branches/0/rewind", {"tokens": 1, "chars": 1}, 400),
        ("POST", f"{path}/branches/0/rewind", {"tokens": -1}, 400),
        ("POST", f"{path}/branches/0/append", {"text": ""}, 400),
        ("POST", f"{path}/branches/0/reroll", {"temperature": "hot"}, 400),
        ("GET", f"{path}/events?after=soon", None, 400),
    )
    for method, where, body, status in refused:
        answer = client.request(method, where, json=body)
        assert answer.status_code == status, where
        assert isinstance(answer.json()["error"], str)
    assert client.get(path).json().get("picked") is None, "a refused pick picks nothing"
