"""Judging and banned phrases over a socket, on the bundled model."""

from __future__ import annotations

import math
from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.engine.watchers.loops import find_loop
from srbwriter.session.judging import RUBRIC, answers, questions
from tests.fakes.engine import FakeEngine

from .conftest import Serve
from .test_handles import follow
from .wire import frames

STORY = "Once upon a time, there was a little fox who lived in the wood."
QUESTIONS = ["Is this passage sad?", "Is it short?"]


def written(client: httpx.Client, **more: Any) -> tuple[str, dict[str, Any]]:
    body = {"prompt": STORY, "n": 3, "max_tokens": 12, "seed": 5, "stop": [], **more}
    path = client.post("/srb/v1/requests", json=body).headers["location"]
    follow(client, path)
    return path, client.get(path).json()


def test_a_score_is_what_the_odds_say(real: httpx.Client, model: Engine) -> None:
    path, record = written(real)
    reply = real.post(f"{path}/judge", json={"rubric": QUESTIONS}).json()
    assert reply["questions"] == QUESTIONS and [one["index"] for one in reply["data"]] == [0, 1, 2]
    for one, branch in zip(reply["data"], record["branches"], strict=True):
        for question, share in zip(QUESTIONS, one["answers"], strict=True):
            known = answers(model, question)
            parent = {"request": record["id"], "branch": branch["index"]}
            ids = real.get(f"{path}/branches/{branch['index']}").json()["ids"]
            prompt = [*model.tokenize(STORY, add_bos=True), *ids, *known.suffix]
            body = {"prompt": prompt, "k": 0, "ids": list(known.ids)}
            odds = {
                t["id"]: math.exp(t["logprob"]) for t in real.post("/srb/v1/next", json=body).json()["tokens"]
            }
            yes, no = (sum(odds[token] for token in tokens) for tokens in (known.yes, known.no))
            assert share == pytest.approx(yes / (yes + no), abs=2e-2), parent
        assert one["score"] == pytest.approx(sum(one["answers"]) / 2)
    assert reply["cached_tokens"] > reply["prompt_tokens"] / 2
    assert real.get(path).json()["branches"] == record["branches"], "nothing is written"


def test_the_usual_rubric_and_a_note(client: httpx.Client, engine: FakeEngine) -> None:
    path, _ = written(client)
    assert client.post(f"{path}/judge", json={}).json()["questions"] == list(questions(RUBRIC))
    reply = client.post(f"{path}/judge", json={"note": "rain"}).json()
    assert len(reply["questions"]) == 3 and "(rain)" in reply["questions"][0]


@pytest.mark.parametrize(
    ("rubric", "word"), [([], "nothing"), (["a?"] * 2 + [f"{k}?" for k in range(17)], "16"), ([5], "texts")]
)
def test_what_asks_nothing_is_refused(client: httpx.Client, rubric: Any, word: str) -> None:
    path, _ = written(client)
    answer = client.post(f"{path}/judge", json={"rubric": rubric})
    assert answer.status_code == 400 and word in answer.json()["error"]


def test_what_nobody_may_see_is_not_judged(client: httpx.Client) -> None:
    assert client.post("/srb/v1/requests/none/judge", json={}).status_code == 404


@pytest.mark.parametrize("questions_asked", [5, 16])
def test_more_is_asked_than_may_be_answered_at_once(
    client: httpx.Client, engine: FakeEngine, questions_asked: int
) -> None:
    path, _ = written(client, n=64, max_tokens=1)
    reply = client.post(f"{path}/judge", json={"rubric": [f"Is it {k}?" for k in range(questions_asked)]})
    assert reply.status_code == 200, reply.text
    assert [len(one["answers"]) for one in reply.json()["data"]] == [questions_asked] * 64
    mine = client.get("/srb/v1/requests").json()["data"]
    assert [one["id"] for one in mine if one["state"] == "running"] == []
    assert engine.stats().live_branches == 0


def test_judging_leaves_room_for_others(serve: Serve, engine: FakeEngine) -> None:
    with httpx.Client(base_url=serve(max_requests=3).url, timeout=20) as client:
        path, _ = written(client, n=4)
        assert client.post(f"{path}/judge", json={"rubric": ["a?", "b?"]}).status_code == 200
        many = client.post("/v1/completions", json={"prompt": ["a"] * 4, "max_tokens": 1, "model": "m"})
        assert many.status_code == 400 and "3 are possible" in many.text


# ---- loops, banned phrases


def test_a_stream_shows_nothing_of_a_loop(real: httpx.Client, model: Engine) -> None:
    body: dict[str, Any] = {"model": "m", "prompt": STORY, "max_tokens": 400, "temperature": 0}
    body |= {"ignore_eos": True, "loop_guard": 3}
    free = real.post("/v1/completions", json={**body, "loop_guard": 0}).json()["choices"][0]["text"]
    assert any(find_loop(free[:end], 3) for end in range(len(free)))
    model.reset()  # what is cached changes the last bits
    whole = real.post("/v1/completions", json=body).json()["choices"][0]["text"]
    assert not any(find_loop(whole[:end], 3) for end in range(len(whole)))
    model.reset()
    chunks = frames(real.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole


def test_a_phrase_does_not_come_and_events_say_so(real: httpx.Client) -> None:
    common = ["the fox", "one day", "he saw", "loved to", "found a", "was very", "wanted to"]
    path, record = written(real, n=6, max_tokens=40, banned_phrases=[common] * 6)
    texts = [branch["text"].lower() for branch in record["branches"]]
    assert not [(phrase, text) for text in texts for phrase in common if f" {phrase}" in f" {text}"]
    events = [event for event in follow(real, path) if event["event"] == "banned"]
    assert events and all(event["phrase"] in common and event["tokens"] >= 1 for event in events)
    for branch in record["branches"]:
        assert branch["bans"] == sum(event["index"] == branch["index"] for event in events)
        assert branch["tokens"] == 40


def test_a_stream_shows_nothing_of_what_was_taken_back(real: httpx.Client, model: Engine) -> None:
    common = ["the fox", "one day", "he saw", "loved to", "found a", "was very", "wanted to"]
    body: dict[str, Any] = {"model": "m", "prompt": STORY, "max_tokens": 40, "seed": 5}
    body |= {"banned_strings": common, "logprobs": 1}
    model.reset()  # what is cached changes the last bits
    whole = real.post("/v1/completions", json=body).json()["choices"][0]
    model.reset()
    chunks = [
        c["choices"][0]
        for c in frames(real.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    ]
    assert "".join(chunk["text"] for chunk in chunks) == whole["text"]
    streamed = [t for chunk in chunks if chunk["logprobs"] for t in chunk["logprobs"]["tokens"]]
    assert streamed == whole["logprobs"]["tokens"] and "".join(streamed) == whole["text"]
