"""OpenAI's dialect: answers in one piece."""

from __future__ import annotations

import httpx
import pytest

from tests.fakes.engine import FakeEngine

BODY = {"model": "fake", "prompt": "Once upon a time,", "max_tokens": 6}


def choices(answer: httpx.Response) -> list[dict]:
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"]


def test_a_completion(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json=BODY)
    value = answer.json()
    assert value["id"] == f"cmpl-{answer.headers['x-request-id']}"
    assert value["object"] == "text_completion"
    assert value["choices"] == [
        {
            "index": 0, "text": " there was a cat. The", "logprobs": None, "finish_reason": "length",
            "stop_reason": None,
        }
    ]  # fmt: skip
    assert value["usage"] == {
        "prompt_tokens": 6, "completion_tokens": 6, "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 0},
    }  # fmt: skip
    assert answer.headers["content-type"] == "application/json; charset=utf-8"


def test_several_prompts_and_choices_have_flat_indices(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" {prompt}{branch}"
    found = choices(client.post("/v1/completions", json={"model": "m", "prompt": ["cat", "dog"], "n": 2}))
    assert [c["index"] for c in found] == [0, 1, 2, 3]
    assert [c["text"] for c in found] == [" cat0", " cat1", " dog0", " dog1"]


def test_logprobs_come_in_both_shapes(client: httpx.Client) -> None:
    (choice,) = choices(client.post("/v1/completions", json={**BODY, "logprobs": 3}))
    known = choice["logprobs"]
    assert "".join(known["tokens"]) == choice["text"]
    assert len(known["tokens"]) == len(known["token_logprobs"]) == len(known["top_logprobs"]) == 6
    assert known["text_offset"][:3] == [0, 6, 10]
    assert [entry["token"] for entry in known["content"]] == known["tokens"]
    assert known["content"][0]["bytes"] == list(b" there")
    assert len(known["content"][0]["top_logprobs"]) == 3
    assert known["top_logprobs"][0][" there"] == -0.5
    (choice,) = choices(client.post("/v1/completions", json={**BODY, "logprobs": 0}))
    assert choice["logprobs"]["top_logprobs"][0] == {" there": -0.5}, "the token that was chosen"


def test_echo_with_logprobs_begins_with_the_prompts_tokens(client: httpx.Client) -> None:
    answer = client.post("/v1/completions", json={**BODY, "echo": True, "logprobs": 2})
    (choice,) = choices(answer)
    known = choice["logprobs"]
    assert choice["text"] == "Once upon a time, there was a cat. The"
    assert "".join(known["tokens"]) == choice["text"]
    assert known["token_logprobs"][0] == -0.5 and known["text_offset"] == sorted(set(known["text_offset"]))
    prompt = answer.json()["usage"]["prompt_tokens"]  # without the beginning token, which writes nothing
    assert known["tokens"][prompt:] == [" there", " was", " a", " cat", ".", " The"]
    assert known["text_offset"][prompt] == len("Once upon a time,")


def test_chat(client: httpx.Client, engine: FakeEngine) -> None:
    said = [{"role": "user", "content": "Tell me."}]
    body = {"messages": said, "max_completion_tokens": 3, "top_k": 4, "n": 2}
    value = client.post("/v1/chat/completions", json=body).json()
    assert value["object"] == "chat.completion" and value["id"].startswith("chatcmpl-")
    assert [c["message"] for c in value["choices"]] == [{"role": "assistant", "content": " there was a"}] * 2
    request = engine.submitted[-1]
    assert request.prompt == "<|im_start|>user\nTell me.<|im_end|>\n<|im_start|>assistant\n"
    assert request.parse_special and request.stop.max_tokens == 3
    assert all(sampling.top_k == 4 for sampling in request.sampling)
    assert "<|im_end|>" in request.stop.strings
    messages = [*said, {"role": "assistant", "content": "Well"}]  # a trailing one is continued
    assert client.post("/v1/chat/completions", json={"messages": messages}).status_code == 200
    assert engine.submitted[-1].prompt.endswith("<|im_start|>assistant\nWell")


SAID = [{"role": "user", "content": "a"}]


@pytest.mark.parametrize(
    "change",
    [
        {"messages": []},
        {"messages": "hello"},
        {"messages": [{"content": "no role"}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        {"messages": [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]},
        {"messages": SAID, "top_logprobs": 3},
        {"messages": SAID, "add_generation_prompt": True, "continue_final_message": True},
        {"messages": SAID, "response_format": {"type": "yaml"}},
    ],
    ids=str,
)
def test_chats_that_mean_nothing(client: httpx.Client, change: dict) -> None:
    answer = client.post("/v1/chat/completions", json=change)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_chat_logprobs(client: httpx.Client) -> None:
    body = {"messages": SAID, "max_tokens": 2, "logprobs": True, "top_logprobs": 2}
    (choice,) = choices(client.post("/v1/chat/completions", json=body))
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == [" there", " was"]
    assert len(choice["logprobs"]["content"][0]["top_logprobs"]) == 2
