"""LoRA adapters over HTTP: named by a request or by each branch, and listed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import ONLY_READ, EngineOptions, Request, Sampling, Stop
from tests.engine.toy_models import make_lora, make_merged, make_qwen

from .conftest import serving
from .test_handles import text_of
from .wire import frames

STORY = "the little king said no to the old bird"
BODY: dict[str, Any] = {"prompt": STORY, "temperature": 0, "n_predict": 8, "ignore_eos": True}
HALF, BOTH = [{"id": 0, "scale": 0.5}], [{"id": 0}, {"id": 1, "scale": -1}]


def options(*lora: tuple[str, float]) -> EngineOptions:
    return EngineOptions(
        n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=8, cache_type_k="f32", cache_type_v="f32",
        lora=lora,
    )  # fmt: skip


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lora")
    make_qwen(folder / "base.gguf")
    for seed in (1, 2):
        make_lora(folder / f"{seed}.gguf", seed)
    return folder


@pytest.fixture
def http(files: Path) -> Iterator[httpx.Client]:
    adapters = options((str(files / "1.gguf"), 1.0), (str(files / "2.gguf"), 0.0))
    yield from serving(Engine.load(files / "base.gguf", adapters))


@pytest.fixture(scope="module")
def wanted(files: Path) -> dict[str, str]:
    """What models write that the adapters are a part of."""
    found = {}
    for name, adapters in {"usual": [(1, 1.0)], "half": [(1, 0.5)], "both": [(1, 1.0), (2, -1.0)]}.items():
        make_merged(files / "merged.gguf", *adapters)
        for client in serving(Engine.load(files / "merged.gguf", options())):
            found[name] = client.post("/completion", json=BODY).json()["content"]
    assert len(set(found.values())) == 3
    return found


def test_a_request_names_its_adapters(http: httpx.Client, wanted: dict[str, str]) -> None:
    for body, name in (({}, "usual"), ({"lora": HALF}, "half"), ({"lora": BOTH}, "both"), ({}, "usual")):
        answer = http.post("/completion", json={**BODY, **body}).json()
        assert answer["content"] == wanted[name]
    assert answer["generation_settings"]["lora"] == []
    shown = http.post("/completion", json={**BODY, "lora": BOTH}).json()["generation_settings"]["lora"]
    assert shown == [{"id": 0, "scale": 1.0}, {"id": 1, "scale": -1.0}]
    chosen = http.post("/v1/completions", json={**BODY, "model": "m", "max_tokens": 8, "lora": HALF})
    assert chosen.json()["choices"][0]["text"] == wanted["half"]


def test_adapters_are_used_for_what_another_srbwriter_asks(
    http: httpx.Client, wanted: dict[str, str]
) -> None:
    with RemoteEngine.connect(RemoteOptions(str(http.base_url))) as elsewhere:
        reply: dict[tuple[tuple[int, float], ...] | None, Generation] = {}
        for lora in (None, ((0, 0.5),), ((0, 1.0), (1, -1.0))):
            request = Request(STORY, stop=ONLY_READ, prompt_logprobs=0, next_logprobs=3, lora=lora)
            reply[lora] = elsewhere.submit(request).wait(60)
        assert len({each.next_logprobs for each in reply.values()}) == 3
        assert len({each.prompt_logprobs[-1].logprob for each in reply.values()}) == 3
        half = elsewhere.submit(
            Request(
                STORY,
                sampling=Sampling(temperature=0),
                stop=Stop(8, ignore_eog=True),
                lora=((0, 0.5),),
                logprobs=0,
            )
        ).wait(60)
        [branch] = half.branches
        assert branch.text == wanted["half"]
        first = reply[((0, 0.5),)].next_logprobs[0]
        assert (branch.ids[0], branch.logprobs[0].logprob) == (first[0], pytest.approx(first[1], abs=1e-3))


@pytest.mark.parametrize("path", ["/srb/v1/completions", "/srb/v1/requests"])
def test_every_branch_can_have_its_own(http: httpx.Client, wanted: dict[str, str], path: str) -> None:
    body = {**BODY, "n": 4, "stop": [], "max_tokens": 8, "lora": [HALF, None, BOTH, HALF], "seed": 1}
    if path.endswith("requests"):
        id = http.post(path, json=body).json()["id"]
        http.get(f"{path}/{id}/events")  # ends with the request
        texts = [branch["text"] for branch in http.get(f"{path}/{id}").json()["branches"]]
    else:
        lines = frames(http.post(f"{path}?sse=1", json=body).content)
        texts = [text_of(lines, index) for index in range(4)]
        assert lines[-1]["count"] == 4
    assert texts == [wanted[name] for name in ("half", "usual", "both", "half")]


def test_adapters_are_listed(http: httpx.Client, files: Path) -> None:
    listed = http.get("/lora-adapters").json()
    assert [(one["id"], one["path"], one["scale"]) for one in listed] == [
        (0, str(files / "1.gguf"), 1.0), (1, str(files / "2.gguf"), 0.0),
    ]  # fmt: skip
    assert http.post("/lora-adapters", json=BOTH).status_code == 405


NO_ADAPTERS: list[Any] = [
    5, "x", [5], [{"id": "0"}], [{"id": 0, "scale": "big"}], [{"id": 7}], [{"id": -1}], [{"scale": 1}],
    [{"id": 0, "scale": 1e9}], [{"id": 0}] * 65, {"id": 0},
]  # fmt: skip


def test_what_names_no_adapter_is_a_400(http: httpx.Client) -> None:
    for value in NO_ADAPTERS:
        for path in ("/completion", "/v1/completions", "/srb/v1/completions"):
            answer = http.post(path, json={**BODY, "model": "m", "lora": value})
            assert answer.status_code == 400 and "lora" in answer.text, (path, value)
    three_for_two = {**BODY, "n": 2, "lora": [HALF, HALF, HALF]}
    assert http.post("/srb/v1/completions", json=three_for_two).status_code == 400


def test_without_adapters_there_are_none_and_the_cure_is_named(files: Path) -> None:
    for client in serving(Engine.load(files / "base.gguf", options())):
        assert client.get("/lora-adapters").json() == []
        answer = client.post("/completion", json={**BODY, "lora": HALF})
        assert answer.status_code == 501 and "--lora" in answer.json()["error"]["message"]
        none = client.post("/completion", json={**BODY, "lora": [{"id": 0, "scale": 0}]})
        assert none.status_code == 200
