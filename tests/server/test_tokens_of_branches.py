"""Token by token over HTTP: what could follow, on the fake engine."""

from __future__ import annotations

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
