"""Handles on running requests and their branches."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.fakes.engine import STORY, FakeEngine

from .conftest import Serve


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


def test_following_goes_on_after_the_last_event_seen(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client)
    with client.stream("GET", path + "/events") as answer:
        next(answer.iter_bytes())
    engine.release()
    whole = client.get(path + "/events").text
    assert engine.cancelled == [], "who looks on and leaves ends nothing"
    ids = [int(line.removeprefix("id: ")) for line in whole.splitlines() if line.startswith("id: ")]
    assert ids == sorted(ids)
    middle = ids[len(ids) // 2]
    rest = client.get(path + "/events", headers={"Last-Event-ID": str(middle)}).text
    assert rest.split("\n\n")[1:] == whole.split("\n\n")[1:][ids.index(middle) :]


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


def test_patching_changes_what_is_named_and_nothing_else(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client, n=1, top_k=9, seed=3)
    assert client.patch(path + "/branches/0", json={"temperature": 1.5, "max_tokens": 4}).status_code == 202
    engine.release()
    follow(client, path)
    branch = engine.generations[-1].branches[0]
    assert (branch.sampling.temperature, branch.sampling.top_k, branch.sampling.seed) == (1.5, 9, 3)
    assert len(branch.ids) == 4


def test_branches_join_a_running_request(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client)
    assert client.post(path + "/branches", json={"n": 2, "temperature": 0}).status_code == 202
    engine.release()
    events = follow(client, path)
    assert [e["index"] for e in events if e["event"] == "added"] == [2, 3]
    assert {e["index"] for e in events if e["event"] == "stop"} == {0, 1, 2, 3}
    assert client.post(path + "/branches", json={"n": 65}).status_code == 400


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


def test_branches_of_several_prompts_are_counted_through(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: prompt[-4:] + STORY
    answer = client.post(
        "/v1/completions", json={"model": "m", "prompt": ["Once", "Then"], "n": 2, "max_tokens": 3}
    )
    path = f"/srb/v1/requests/{answer.headers['x-request-id']}"
    text = answer.json()["choices"][3]["text"]
    value = client.get(path + "/branches/3").json()
    assert (value["index"], value["text"]) == (3, text)
    events = follow(client, path + "/branches/3")
    assert text_of(events, 3) == text
    assert events[-1]["completion_tokens"] == 12
    assert client.get(path + "/events", params={"after": 1}).status_code == 400
    picked = client.post(path + "/branches/3/pick", json={}).json()
    assert (picked["index"], picked["parent"]["branch"], client.get(path).json()["picked"]) == (3, 3, 3)
    assert client.post(path + "/branches/3/stop").json()["index"] == 3
    client.post("/srb/v1/completions", json={"parent": picked["parent"], "n": 1, "max_tokens": 1})
    (run,) = engine.submitted[-1].prompt
    assert engine.detokenize(run.ids).endswith("Then" + text)


@pytest.mark.parametrize("limit", [{"max_tokens": 3}, {"max_tokens": -1, "max_seconds": 1}])
def test_a_text_that_nobody_holds_has_an_end(client: httpx.Client, limit: dict[str, Any]) -> None:
    endless = {"prompt": "Once", "n": 1, "overflow": "shift", "max_tokens": -1}
    answer = client.post("/srb/v1/requests", json=endless)
    assert answer.status_code == 400 and "max_tokens" in answer.json()["error"]
    assert client.post("/srb/v1/requests", json={**endless, **limit}).status_code == 202


def test_fork_is_a_new_request_from_where_the_branch_is(client: httpx.Client, engine: FakeEngine) -> None:
    path = start(client, top_k=11)
    follow(client, path)
    answer = client.post(path + "/branches/0/fork", json={"n": 3})
    assert (answer.status_code, answer.json()["count"]) == (202, 3)
    request = engine.submitted[-1]
    assert request.prompt[0].text == "Once there was a cat."
    assert request.sampling[0].top_k == 11


def test_cancel_and_forget(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client)
    assert client.post(path + "/cancel").status_code == 202
    assert follow(client, path)[-1]["event"] == "done"
    assert client.delete(path).json()["deleted"] is True
    assert client.get(path).status_code == 404


def test_a_verb_that_does_nothing_says_why(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold = 1
    path = start(client)
    for verb, words in (("extend", "is still writing"), ("resume", "is still writing")):
        note = client.post(f"{path}/branches/0/{verb}", json={}).json()["note"]
        assert note == f"{verb} does nothing: branch 0 {words}"
    assert "note" not in client.post(path + "/branches/0/extend", json={"max_tokens": 3}).json()
    engine.release()
    follow(client, path)
    for verb in ("stop", "pause", "resume"):
        answer = client.post(f"{path}/branches/0/{verb}", json={})
        assert answer.json()["note"] == f"{verb} does nothing: branch 0 has ended already"
        assert answer.status_code == 202


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


def test_finished_requests_are_forgotten_after_a_while(serve: Serve, engine: FakeEngine) -> None:
    with httpx.Client(base_url=serve(keep_requests=3).url, timeout=20) as http:
        paths: list[str] = []
        for _ in range(6):  # one after the other: those that end first are forgotten first
            paths.append(start(http))
            follow(http, paths[-1])
        assert [http.get(path).status_code for path in paths][-3:] == [200] * 3
        assert http.get(paths[0]).status_code == 404
