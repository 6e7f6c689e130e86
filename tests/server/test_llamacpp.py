"""llama.cpp's dialect."""

from __future__ import annotations

import json
import math
import re

import httpx
import pytest

from srbwriter.engine.types import TokenRun
from tests.fakes.engine import FIM_MID, FIM_PRE, FIM_SUF, FakeEngine

from .conftest import Serve
from .wire import frames

BODY = {"prompt": "Once", "n_predict": 3}


def test_a_completion(client: httpx.Client) -> None:
    value = client.post("/completion", json=BODY).json()
    assert value["content"] == " there was a"
    assert value["tokens"] == [] and value["stop"] is True and value["index"] == 0
    assert (value["stop_type"], value["stopped_limit"], value["stopping_word"]) == ("limit", True, "")
    assert (value["tokens_predicted"], value["tokens_evaluated"], value["tokens_cached"]) == (3, 2, 5)
    assert value["prompt"] == "<s>Once"
    assert value["model"] == "fake" and value["truncated"] is False and value["has_new_line"] is False
    settings = value["generation_settings"]
    assert (settings["n_predict"], settings["temperature"], settings["top_k"]) == (3, 0.8, 40)
    assert all(math.isfinite(v) for v in value["timings"].values())
    counted = ("prompt_n", "prompt_ms", "prompt_per_token_ms", "prompt_per_second")
    written = (name.replace("prompt", "predicted") for name in counted)
    assert set(value["timings"]) == {"cache_n", *counted, *written}


def test_a_system_prompt_needs_no_prompt(serve: Serve, engine: FakeEngine) -> None:
    """The body that llama.cpp's README showed in 2024: nothing is written for it."""
    body = {"system_prompt": {"prompt": "The cat.", "anti_prompt": "You:", "assistant_name": "Bot:"}}
    with httpx.Client(base_url=serve().url) as http:
        answer = http.post("/completion", json=body)
        assert (answer.status_code, answer.json().get("content")) == (200, "")
        (last,) = frames(http.post("/completion", json={**body, "stream": True}).content)
        assert last["stop"] is True
        http.post("/completion", json=BODY)
        assert engine.submitted[-1].prompt == (TokenRun("The cat."), TokenRun("Once"))
        assert http.get("/props").json()["system_prompt"] == "The cat."
        assert http.post("/completion", json={"system_prompt": ""}).status_code == 200
        assert http.get("/props").json()["system_prompt"] == ""


REFUSED = (
    {"prompt": []},
    {"prompt": "Once" * 600},
    {"prompt": "Once", "n": 65},
    {"prompt": "Once", "temperature": "warm"},
    {"prompt": "Once", "system_prompt": {"prompt": 5}},
    {"system_prompt": "Once" * 600},
)


def test_a_refused_request_changes_no_system_prompt(serve: Serve, engine: FakeEngine) -> None:
    with httpx.Client(base_url=serve().url) as http:
        for body in REFUSED:
            answer = http.post("/completion", json={"system_prompt": "Obey.", **body})
            assert (answer.status_code, http.get("/props").json()["system_prompt"]) == (400, ""), body


def test_several_branches_are_a_list_at_the_top(client: httpx.Client, engine: FakeEngine) -> None:
    engine.script = lambda prompt, branch: f" {branch}"
    values = client.post("/completion", json={**BODY, "n": 3, "seed": 9}).json()
    assert [(v["index"], v["content"]) for v in values] == [(0, " 0"), (1, " 1"), (2, " 2")]
    assert [v["generation_settings"]["seed"] for v in values] == [9, 10, 11]
    assert len({v["id_slot"] for v in values}) == 3


def test_frames_of_a_stream(client: httpx.Client) -> None:
    answer = client.post("/completion", json={**BODY, "n_cmpl": 2, "stream": True})
    values = frames(answer.content)
    assert "[DONE]" not in values
    chunks = [v for v in values if not v["stop"]]
    assert all(
        set(c) == {"index", "content", "tokens", "stop", "id_slot", "tokens_predicted", "tokens_evaluated"}
        for c in chunks
    )
    for index in range(2):
        mine = [v for v in values if v["index"] == index]
        assert "".join(v["content"] for v in mine) == " there was a"
        assert [v["stop"] for v in mine] == [False] * (len(mine) - 1) + [True]
        assert mine[-1]["content"] == "" and mine[-1]["stop_type"] == "limit"
    assert [t for c in chunks if c["index"] == 0 for t in c["tokens"]] != []


@pytest.mark.parametrize("stream", [False, True])
def test_probabilities_in_both_shapes(client: httpx.Client, stream: bool) -> None:
    answer = client.post("/completion", json={**BODY, "n_probs": 2, "stream": stream})
    values = frames(answer.content) if stream else [answer.json()]
    entries = [entry for v in values for entry in v.get("completion_probabilities", [])]
    assert [entry["token"] for entry in entries] == [" there", " was", " a"]
    first = entries[0]
    assert first["bytes"] == list(b" there") and first["logprob"] == -0.5
    assert [set(top) for top in first["top_logprobs"]] == [{"id", "token", "bytes", "logprob"}] * 2
    assert first["content"] == " there"
    assert first["probs"][0] == {"tok_str": " there", "prob": math.exp(-0.5)}
    answer = client.post("/completion", json={**BODY, "n_probs": 2, "post_sampling_probs": True})
    entry = answer.json()["completion_probabilities"][0]
    assert entry["prob"] == math.exp(-0.5) and all(top["prob"] > 0 for top in entry["top_probs"])


def test_infill(serve: Serve, engine: FakeEngine) -> None:
    with httpx.Client(base_url=serve().url) as http:
        body = {"input_prefix": "Once", "input_suffix": " end", "n_predict": 2}
        assert http.post("/infill", json=body).status_code == 501
        engine.fim = (FIM_PRE, FIM_SUF, FIM_MID)
        body = {**body, "prompt": " upon"}
        assert http.post("/infill", json=body).json()["content"] == " there was"
        ids = list(engine.submitted[-1].prompt)
        once, upon, end = engine.tokenize("Once upon end")
        assert ids == [FIM_PRE, once, upon, FIM_SUF, end, FIM_MID]
        assert http.post("/infill", json={**body, "input_suffix": None}).status_code == 400
        answer = http.post("/v1/completions", json={"model": "m", "prompt": "Once", "suffix": " end"})
        assert answer.status_code == 200
        assert list(engine.submitted[-1].prompt) == [FIM_PRE, once, FIM_SUF, end, FIM_MID]


def test_tokenize_answers_two_kinds_of_clients(client: httpx.Client, engine: FakeEngine) -> None:
    once, upon = engine.tokenize("Once upon")
    plain = client.post("/tokenize", json={"content": "Once upon"}).json()
    assert plain == {"tokens": [once, upon], "count": 2, "max_model_len": 512}
    vllm = client.post("/tokenize", json={"model": "m", "prompt": "Once upon"}).json()
    assert (vllm["count"], vllm["tokens"][1:]) == (3, [once, upon])
    pieces = client.post("/tokenize", json={"content": "Once\u00e9", "with_pieces": True}).json()["tokens"]
    assert [(one["id"], one["piece"]) for one in pieces] == [(once, "Once"), (0xC3, [0xC3]), (0xA9, [0xA9])]
    mixed = client.post("/tokenize", json={"content": [once, " upon", once]}).json()["tokens"]
    assert mixed == [once, upon, once]
    for wrong in ([1.5], [10**9], [[once]], {"a": 1}):
        answer = client.post("/tokenize", json={"content": wrong})
        assert answer.status_code == 400 and "content" in answer.text


def test_detokenize_and_templates(client: httpx.Client, engine: FakeEngine) -> None:
    for text in ("Once upon", ""):
        reply = client.post("/detokenize", json={"tokens": engine.tokenize(text)}).json()
        assert reply == {"content": text, "prompt": text}
    body = {"messages": [{"role": "user", "content": "a"}]}
    assert client.post("/apply-template", json=body).json()["prompt"].endswith("<|im_start|>assistant\n")


def test_health_while_loading_ready_and_failed(serve: Serve) -> None:
    class Loading:
        engine, state, error = None, "LOADING", None

    class Broken:
        engine, state, error = None, "FAILED", OSError("no such file")

    with httpx.Client(base_url=serve(Loading()).url) as http:
        answer = http.get("/health")
        assert (answer.status_code, answer.json()["error"]["message"]) == (503, "Loading model")
        assert "retry-after" in answer.headers
        assert http.get("/v1/models").json()["data"][0]["engine_state"] == "LOADING"
        assert http.post("/v1/completions", json={"prompt": "a"}).json() == {"error": "Loading model"}
        assert http.get("/metrics").status_code == 501
    with httpx.Client(base_url=serve(Broken()).url) as http:
        assert http.get("/health").status_code == 500
        assert http.post("/completion", json=BODY).status_code == 503


def test_a_slot_is_the_number_of_a_branch(client: httpx.Client, engine: FakeEngine) -> None:
    engine.hold_again(1)
    with client.stream("POST", "/completion", json={**BODY, "n": 2, "stream": True}) as answer:
        lines = (line for line in answer.iter_lines() if line)
        numbers = {json.loads(next(lines).removeprefix("data: "))["id_slot"] for _ in range(2)}
        assert numbers == {slot["id"] for slot in client.get("/slots").json() if slot["is_processing"]}
        engine.release()


def test_metrics_are_valid_exposition(client: httpx.Client) -> None:
    client.post("/completion", json=BODY)
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert answer.headers["process-start-time-unix"].isdecimal()
    block = r"# HELP (\S+) [^\n]+\n# TYPE (\S+) (counter|gauge)\n(\S+) (\S+)\n"
    blocks = re.findall(block, answer.text)
    assert re.sub(block, "", answer.text) == ""
    for help_name, type_name, kind, name, _ in blocks:
        assert help_name == type_name == name and name.startswith("llamacpp:")
        assert kind == "gauge" or name.endswith(("_total", "_max"))
    figures = {name.removeprefix("llamacpp:"): float(value) for *_, name, value in blocks}
    assert figures["tokens_predicted_total"] == 3
    assert figures.keys() >= {
        "prompt_tokens_total", "n_busy_slots_per_decode", "requests_processing", "requests_deferred",
    }  # fmt: skip
