"""What a prompt of ids, with media, or after a parent means to the engine; and fields that mean little."""

from __future__ import annotations

import math
from typing import Any

import httpx

from tests.fakes.engine import FakeEngine

SHORT = {"max_tokens": 2}


def test_a_prompt_of_ids_is_taken_as_it_is(client: httpx.Client, engine: FakeEngine) -> None:
    cases: tuple[tuple[Any, bool], ...] = (
        ("Once", True), ([256, 257], False), (["Once", 257], False), ({"prompt_string": "Once"}, True),
    )  # fmt: skip
    for path in ("/completion", "/v1/completions", "/srb/v1/completions"):
        for prompt, begun in cases:
            assert client.post(path, json={"prompt": prompt, **SHORT}).status_code == 200
            request = engine.submitted[-1]
            assert request.add_bos is begun, (path, prompt)
            if isinstance(prompt, list):  # a text in front of ids begins as texts do
                assert (request.prompt[0] == engine.bos) is isinstance(prompt[0], str)


def test_openai_clients_may_switch_the_beginning_off(client: httpx.Client, engine: FakeEngine) -> None:
    client.post("/v1/completions", json={"model": "m", "prompt": "Once", "add_bos_token": False, **SHORT})
    assert engine.submitted[-1].add_bos is False


def test_a_parent_begins_as_it_was_evaluated(client: httpx.Client, engine: FakeEngine) -> None:
    id = client.post("/srb/v1/requests", json={"prompt": [256, 257], "n": 1, **SHORT}).json()["id"]
    parent = {"request": id, "branch": 0}
    client.post("/srb/v1/completions", json={"parent": parent, "prompt": " and", "n": 1, **SHORT})
    fork = client.post(f"/srb/v1/requests/{id}/branches/0/fork", json=SHORT).json()["id"]
    for path in (id, fork):
        client.get(f"/srb/v1/requests/{path}/events")  # until they have ended
    assert [request.add_bos for request in engine.submitted] == [False] * 3


def test_the_gap_of_a_text_begins_as_texts_do(client: httpx.Client, engine: FakeEngine) -> None:
    engine.fim = (1, 2, 3)
    client.post("/infill", json={"input_prefix": "a", "input_suffix": "b", "n_predict": 2})
    client.post("/v1/completions", json={"model": "m", "prompt": "a", "suffix": "b", **SHORT})
    assert [request.add_bos for request in engine.submitted] == [True, True]


def test_media_are_refused(client: httpx.Client) -> None:
    prompt = {"prompt_string": "What is this <__media__>", "multimodal_data": ["aGVsbG8="]}
    beside = {"prompt": "Once", "image_data": [{"data": "x", "id": 1}]}
    for body in ({"prompt": prompt}, {"prompt": [prompt, "x"]}, beside):
        answer = client.post("/completion", json={**body, **SHORT})
        assert answer.status_code == 501
        assert answer.json()["error"]["type"] == "not_supported_error"
        assert "text only" in answer.json()["error"]["message"]
    idle = {"prompt_string": "Once", "multimodal_data": []}
    assert client.post("/completion", json={"prompt": idle, **SHORT}).status_code == 200


def test_bans_as_clients_send_them(client: httpx.Client, engine: FakeEngine) -> None:
    for bans, banned in (
        ([], []), ("", []), (None, []), ([5, 6], [5, 6]), ("5, 6,x", [5, 6]), ([10**9, -1], [])
    ):  # fmt: skip
        answer = client.post("/completion", json={"prompt": "a", "custom_token_bans": bans, **SHORT})
        assert answer.status_code == 200
        sampling = engine.submitted[-1].sampling
        assert isinstance(sampling, tuple)
        assert sampling[0].logit_bias == tuple((token, -math.inf) for token in banned)
    for wrong in (5, ["5"], {"5": 1}, "5," * 400_000):
        answer = client.post("/completion", json={"prompt": "a", "custom_token_bans": wrong, **SHORT})
        assert answer.status_code == 400 and "custom_token_bans" in answer.json()["error"]["message"]
