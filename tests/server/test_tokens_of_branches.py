"""Token by token over HTTP: what could follow, on the fake engine, and forks of branches on a real one."""

from __future__ import annotations

from typing import Any

import httpx

from tests.fakes.engine import FakeEngine


def test_what_could_follow_a_prompt(client: httpx.Client, engine: FakeEngine) -> None:
    answer = client.post("/srb/v1/next", json={"prompt": "Once", "k": 2, "ids": [98, 120]})
    assert answer.status_code == 200
    assert answer.json() == {
        "tokens": [
            {"id": 97, "text": "a", "bytes": [97], "logprob": -1.0},
            {"id": 98, "text": "b", "bytes": [98], "logprob": -2.0},
            {"id": 120, "text": "x", "bytes": [120], "logprob": -170.0},
        ],
        "prompt_tokens": len(engine.generations[-1].prompt_ids),
        "cached_tokens": 0,
    }
    assert engine.generations[-1].branches[0].ids == ()


def test_several_prompts_are_answered_in_their_order(client: httpx.Client, engine: FakeEngine) -> None:
    answer = client.post("/srb/v1/next", json={"prompt": ["Once", "The dog"], "k": 1}).json()
    counts = [len(engine.tokenize(text)) for text in ("Once", "The dog")]
    assert [one["prompt_tokens"] for one in answer["data"]] == [count + engine.add_bos for count in counts]
    assert [len(one["tokens"]) for one in answer["data"]] == [1, 1]
    ids = client.post("/srb/v1/next", json={"prompt": [97, 98]}).json()
    assert len(ids["tokens"]) == 10


def test_what_means_nothing_is_refused(client: httpx.Client) -> None:
    for body in ({}, {"prompt": "a", "k": 1000}, {"prompt": "a", "ids": [-1]}):
        answer = client.post("/srb/v1/next", json=body)
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]


def written(http: httpx.Client, **body: Any) -> str:
    """The path of a branch that has ended."""
    given = {"prompt": "Once upon a time,", "n": 1, "max_tokens": 8, "ignore_eos": True, "stop": [], **body}
    path = f"/srb/v1/requests/{http.post('/srb/v1/requests', json=given).json()['id']}"
    http.get(path + "/events")
    return path + "/branches/0"


def test_a_branch_is_told_token_by_token_and_forked_at_one(real: httpx.Client) -> None:
    path = written(real, seed=5)
    branch = real.get(path).json()
    reply = real.post(path + "/tokens", json={"k": 3}).json()["tokens"]
    assert [one["id"] for one in reply] == branch["ids"] and [one["at"] for one in reply] == list(range(8))
    assert all(len(one["alternatives"]) == 3 and one["logprob"] < 0 for one in reply)
    part = real.post(path + "/tokens", json={"k": 1, "from": 2, "to": 4}).json()["tokens"]
    assert [one["id"] for one in part] == branch["ids"][2:4]
    assert [one["at"] for one in part] == [2, 3]

    other = next(one for one in reply[4]["alternatives"] if one["id"] != branch["ids"][4])
    forked = real.post(path + "/fork", json={"at": 4, "token": other["id"], "max_tokens": 4}).json()
    fork = f"/srb/v1/requests/{forked['id']}"
    real.get(fork + "/events")
    assert real.get(fork).json()["prompt_tokens"] == reply[4]["at"] + len(real_ids(real, "Once upon a time,"))
    fork_ids = real.get(fork + "/branches/0").json()
    assert fork_ids["ids"][0] == other["id"] and fork_ids["text"].startswith(other["text"])

    banned = real.post(path + "/fork", json={"at": 4, "without": [branch["ids"][4]], "temperature": 0}).json()
    fork = f"/srb/v1/requests/{banned['id']}"
    real.get(fork + "/events")
    assert real.get(fork + "/branches/0").json()["ids"][0] == other["id"]
    assert real.get(path).json()["ids"] == branch["ids"]


def real_ids(http: httpx.Client, text: str) -> list[int]:
    return http.post("/tokenize", json={"content": text, "add_special": True}).json()["tokens"]


def test_forks_at_no_place_or_with_no_token_are_refused(real: httpx.Client) -> None:
    path = written(real)
    for body in ({"at": 99, "token": 5}, {"at": -1}, {"at": 0, "token": -5}, {"at": 0, "without": "a"}):
        answer = real.post(path + "/fork", json=body)
        assert answer.status_code == 400 and answer.json()["error"], answer.text
