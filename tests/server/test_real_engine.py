"""The server on the bundled model: what the scripted engine cannot show."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine

from .test_handles import follow, text_of
from .wire import frames, wait_until

STORY = "Once upon a time,"


def test_the_same_seed_writes_the_same_in_every_dialect(real: httpx.Client, model: Engine) -> None:
    body = {"prompt": STORY, "n": 3, "max_tokens": 12, "seed": 5, "stop": []}
    model.reset()  # what is cached changes the last bits
    native = [r["content"] for r in real.post("/completion", json=body).json()]
    model.reset()
    openai = [c["text"] for c in real.post("/v1/completions", json={**body, "model": "m"}).json()["choices"]]
    model.reset()
    events = frames(real.post("/srb/v1/completions?sse=1", json=body).content)
    assert native == openai == [text_of(events, index) for index in range(3)]
    assert len(set(native)) == 3


@pytest.mark.parametrize("stop", [None, [" a", "b"]])
def test_streams_and_answers_agree_and_tokens_join(real: httpx.Client, model: Engine, stop: Any) -> None:
    body = {"model": "m", "prompt": STORY, "n": 2, "max_tokens": 40, "seed": 3, "logprobs": 4, "stop": stop}
    model.reset()  # what is cached changes the last bits
    whole = real.post("/v1/completions", json=body).json()["choices"]
    model.reset()
    chunks = frames(real.post("/v1/completions", json={**body, "stream": True}).content)[:-1]
    for choice in whole:
        mine = [c["choices"][0] for c in chunks if c["choices"][0]["index"] == choice["index"]]
        assert "".join(c["text"] for c in mine) == choice["text"]
        assert mine[-1]["finish_reason"] == choice["finish_reason"]
        assert "".join(choice["logprobs"]["tokens"]) == choice["text"]
        streamed = [t for c in mine if c["logprobs"] for t in c["logprobs"]["tokens"]]
        assert "".join(streamed) == choice["text"]
        # Text that a stop string cut out of a token has no token and no logprob.
        own, best = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
        known = [(value, top) for value, top in zip(own, best, strict=True) if value is not None]
        assert all(value <= max(top.values()) <= 0 for value, top in known)
        assert len(known) >= len(own) - 1


def test_writing_on_from_a_picked_branch_evaluates_nothing_again(real: httpx.Client, model: Engine) -> None:
    body = {"prompt": STORY, "n": 4, "max_tokens": 9, "seed": 1, "stop": []}
    answer = real.post("/srb/v1/requests", json=body).json()
    path = f"/srb/v1/requests/{answer['id']}"
    follow(real, path)
    picked = real.post(path + "/branches/2/pick").json()
    before = model.stats().prompt_rows
    more = real.post(
        "/srb/v1/completions?sse=1&rich=1", json={"parent": picked["parent"], "n": 4, "max_tokens": 3}
    )
    done = frames(more.content)[-1]
    assert done["prompt_tokens"] - done["cached_tokens"] <= 1
    assert model.stats().prompt_rows - before <= 1
    reread = real.post("/tokenize", json={"content": STORY + picked["text"], "add_special": True}).json()
    assert done["prompt_tokens"] <= reread["count"] + 1


def test_verbs_on_branches_that_write(real: httpx.Client, model: Engine) -> None:
    body = {"prompt": STORY, "n": 3, "max_tokens": 600, "stop": [], "ignore_eos": True}
    path = f"/srb/v1/requests/{real.post('/srb/v1/requests', json=body).json()['id']}"
    assert real.post(path + "/branches/0/stop").status_code == 202
    assert real.post(path + "/branches/1/reroll", json={"max_tokens": 5, "seed": 9}).status_code == 202
    assert real.post(path + "/branches/2/kill").status_code == 202
    events = follow(real, path)
    value = real.get(path).json()
    assert [b["reason"] for b in value["branches"]] == ["stopped", "length", "killed"]
    assert value["branches"][1]["tokens"] == 5 and value["branches"][1]["seed"] == 9
    assert text_of(events, 1) == value["branches"][1]["text"]

    seen = value["events"]
    assert real.post(path + "/branches/1/rewind", json={"tokens": 3}).status_code == 202
    events = follow(real, path, seen)
    assert any(event["event"] == "cut" and event["index"] == 1 for event in events)
    assert real.get(path + "/branches/1").json()["tokens"] == 5
    seen = real.get(path).json()["events"]
    assert real.post(path + "/branches/1/extend", json={"max_tokens": 4}).status_code == 202
    follow(real, path, seen)
    assert real.get(path + "/branches/1").json()["tokens"] == 9
    assert real.post(path + "/branches/1/append", json={"text": " Then the fox"}).status_code == 202
    wait_until(lambda: "Then the fox" in real.get(path + "/branches/1").json()["text"])
    wait_until(lambda: model.stats().live_branches == 0)


@pytest.mark.parametrize("stream", [True, False])
def test_a_half_typed_word_is_completed(real: httpx.Client, model: Engine, stream: bool) -> None:
    body = {"model": "m", "prompt": "Once upon a tim", "heal": True, "max_tokens": 3, "temperature": 0}
    answer = real.post("/v1/completions", json={**body, "logprobs": 0, "stream": stream})
    found = [c["choices"][0] for c in frames(answer.content)[:-1]] if stream else answer.json()["choices"]
    text = "".join(choice["text"] for choice in found)
    assert text.startswith("e")
    typed = " tim"  # spelt again with the rest, as the tokens of the whole word begin otherwise
    known = [choice["logprobs"] for choice in found if choice["logprobs"]]
    assert "".join(entry["token"] for one in known for entry in one["content"]) == typed + text
    assert "".join(token for one in known for token in one["tokens"]) == text


def test_constraints_over_the_wire(real: httpx.Client) -> None:
    name = {"type": "string", "maxLength": 5}
    schema = {
        "type": "object",
        "properties": {"name": name},
        "required": ["name"],
        "additionalProperties": False,
    }
    body = {"messages": [{"role": "user", "content": "Name?"}], "max_tokens": 250, "seed": 1,
            "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}  # fmt: skip
    choice = real.post("/v1/chat/completions", json=body).json()["choices"][0]
    assert set(json.loads(choice["message"]["content"])) == {"name"}
    chosen = real.post("/v1/completions", json={"model": "m", "prompt": "a", "guided_regex": "red|blue"})
    assert chosen.json()["choices"][0]["text"] in ("red", "blue")
    native = real.post("/completion", json={"prompt": "a", "grammar": 'root ::= "yes" | "no"'}).json()
    assert native["content"] in ("yes", "no")
    for wrong in ({"grammar": "root ::= ("}, {"json_schema": {"type": 7}}, {"guided_regex": "("}):
        answer = real.post("/completion", json={"prompt": "a", **wrong})
        assert answer.status_code == 400, answer.text


def test_a_refused_verb_is_not_half_carried_out(real: httpx.Client) -> None:
    body = {"prompt": STORY, "n": 1, "max_tokens": 4, "stop": [], "temperature": 0}
    path = f"/srb/v1/requests/{real.post('/srb/v1/requests', json=body).json()['id']}"
    follow(real, path)
    first = real.get(path).json()["branches"][0]["text"]
    hot = {"temperature": 100, "top_k": 0, "top_p": 1, "min_p": 0}
    for wrong in (
        {"stop_token_ids": [999_999]}, {"grammar": "bad"}, {"regex": "(", "max_tokens": 9}, {"stop": [1]},
        {"max_tokens": 2**31},
    ):  # fmt: skip
        assert real.patch(path + "/branches/0", json={**hot, **wrong}).status_code == 400
    assert real.post(path + "/branches/0/extend", json={"max_tokens": 4}).status_code == 202
    follow(real, path, real.get(path).json()["events"])
    more = real.get(path).json()["branches"][0]["text"]
    assert more == real.post("/completion", json={**body, "max_tokens": 8}).json()["content"]
    assert more.startswith(first) and more != first
    grammars = ['root ::= "a"', "bad"]
    assert real.post(path + "/branches", json={"grammar": grammars}).status_code == 400
    assert len(real.get(path).json()["branches"]) == 1
    grammars[1] = 'root ::= "b"'
    seen = real.get(path).json()["events"]
    assert real.post(path + "/branches", json={"grammar": grammars}).status_code == 202
    follow(real, path, seen)
    assert [branch["text"] for branch in real.get(path).json()["branches"]][1:] == ["a", "b"]


def test_an_error_names_what_the_client_sent(real: httpx.Client) -> None:
    wrong: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/v1/completions", {"penalty_prompt": [999_999]}),
        ("/v1/completions", {"penalty_prompt": [[]]}),
        ("/v1/embeddings", {"input": [999_999]}),
        ("/embedding", {"content": [999_999]}),
        ("/srb/v1/next", {"k": 101}),
        ("/srb/v1/next", {"ids": [1] * 5000}),
        ("/v1/chat/completions", {"top_logprobs": 101, "logprobs": True}),
        ("/v1/completions", {"top_logprobs": 101, "logprobs": True}),
        ("/api/v1/generate", {"grammar_string": "bad"}),
        ("/v1/completions", {"grammar_string": "bad"}),
    )
    for path, body in wrong:
        field = next(iter(body))
        reply: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}]} if "chat" in path else {}
        if field not in ("input", "content"):
            reply["prompt"] = "x"
        answer = real.post(path, json={"model": "m", **reply, **body})
        assert answer.status_code == 400, path
        assert f"Field '{field}'" in answer.text, answer.text
        if path.startswith("/v1/") and "internal" not in path:
            assert answer.json()["error"]["param"] == field
    path = real.post("/srb/v1/requests", json={"prompt": STORY, "n": 1, "max_tokens": 2}).headers["location"]
    follow(real, path)
    answer = real.post(f"{path}/branches/0/tokens", json={"k": 101})
    assert answer.status_code == 400 and "Field 'k'" in answer.text
