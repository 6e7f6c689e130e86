"""Several models on one port: which one answers, which one is loaded, and which one makes room."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions
from srbwriter.server import Loaded, ModelSpec, ServerSettings, services, start_in_thread
from tests.engine.toy_models import make_qwen
from tests.fakes.engine import FakeEngine

from .lines import LineClient
from .wire import frames

OPTIONS = EngineOptions(n_ctx=256, gpu_layers=0)
Start = Callable[..., httpx.Client]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Two models: the bundled one under another name, and a toy."""
    shutil.copy(bundled_model(), tmp_path / "big.gguf")
    return {"big": tmp_path / "big.gguf", "toy": make_qwen(tmp_path / "toy.gguf")}


@pytest.fixture
def serve(files: dict[str, Path]) -> Iterator[Start]:
    """Start a server of both; keyword arguments are settings, ``need`` what each is said to take.

    ``lines`` is told where the line protocol is spoken.
    """
    ends: list[Callable[[], Any]] = []

    def start(need: int = 0, lines: list[str] | None = None, **settings: Any) -> httpx.Client:
        offers = [ModelSpec(EngineLoader(path, OPTIONS), name, need) for name, path in files.items()]
        handle = start_in_thread(
            offers[0].loader, ServerSettings(port=0, access_log=False, metrics=True, **settings), offers
        )
        client = httpx.Client(base_url=handle.url, timeout=120)
        if lines is not None:
            lines.extend(handle.lines)
        ends.extend([lambda: handle.stop(20), client.close])
        return client

    yield start
    while ends:
        ends.pop()()


def ask(http: httpx.Client, model: str | None, **more: Any) -> httpx.Response:
    named = {} if model is None else {"model": model}
    body = {"prompt": "Once", "max_tokens": 4, "temperature": 0, "ignore_eos": True, **named, **more}
    return http.post("/completion", json=body)


def states(http: httpx.Client) -> dict[str, str]:
    return {card["id"]: card["status"]["value"] for card in http.get("/v1/models").json()["data"]}


def test_each_answers_by_its_name_and_is_loaded_when_it_is_asked_for(serve: Start) -> None:
    http = serve()
    assert states(http) == {"big": "unloaded", "toy": "unloaded"}
    assert http.get("/health").json()["status"] == "ok"
    assert ask(http, "toy").json()["model"] == "toy"
    assert states(http) == {"big": "unloaded", "toy": "loaded"}
    assert ask(http, None).json()["model"] == "big"
    assert states(http) == {"big": "loaded", "toy": "loaded"}
    chosen = http.post("/v1/completions", json={"model": "toy", "prompt": "Once", "max_tokens": 2})
    assert chosen.json()["model"] == "toy" and chosen.json()["choices"][0]["finish_reason"]
    reply = http.post(
        "/v1/completions", json={"model": "toy.gguf", "prompt": "a", "max_tokens": 2, "stream": True}
    )
    assert frames(reply.content)[-1] == "[DONE]"
    for name in ("big", "toy"):
        assert http.get("/props", params={"model": name}).json()["model_alias"] == name
        assert f'llamacpp:n_decode_total{{model="{name}"}}' in http.get("/metrics").text
    asked = http.post("/completion", params={"model": "toy"}, json={"prompt": "a", "n_predict": 1})
    assert asked.json()["model"] == "toy"
    assert http.get("/health").json()["slots_idle"] == 2 * http.get("/props").json()["total_slots"]


def test_an_unknown_name_is_a_404_that_lists_the_names(serve: Start) -> None:
    http = serve()
    for path in ("/completion", "/v1/completions", "/srb/v1/completions", "/v1/embeddings"):
        refused = http.post(path, json={"model": "other", "prompt": "a", "input": "a"})
        assert refused.status_code == 404 and "big, toy" in refused.text
    assert http.get("/v1/models/other").status_code == 404
    assert http.get("/props", params={"model": "other"}).status_code == 404
    assert http.get("/v1/models/toy").json()["id"] == "toy"
    for wrong in (5, ["big"], True):
        body = {"model": wrong, "prompt": "x", "max_tokens": 1}
        answer = http.post("/v1/completions", json=body)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "model"
    assert states(http) == {"big": "unloaded", "toy": "unloaded"}


def mapped(file: Path) -> bool:
    """Whether this process has the file of a model in memory."""
    return str(file) in Path("/proc/self/maps").read_text()


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_least_recently_used_makes_room_and_its_memory_is_freed(
    serve: Start, files: dict[str, Path]
) -> None:
    http = serve(models_max=1)
    ask(http, "toy")
    assert ask(http, "big").json()["model"] == "big"
    assert states(http) == {"big": "loaded", "toy": "unloaded"}
    assert mapped(files["big"]) and not mapped(files["toy"])
    ask(http, "toy")
    before = resident()
    for _ in range(6):
        assert ask(http, "big").status_code == 200 and ask(http, "toy").status_code == 200
    assert states(http) == {"big": "unloaded", "toy": "loaded"}
    assert mapped(files["toy"]) and not mapped(files["big"])
    assert resident() - before < 3 * bundled_model().stat().st_size  # what is kept of 6 would be more


def test_what_was_asked_of_an_unloaded_model_is_forgotten(serve: Start) -> None:
    http = serve(models_max=1)
    created = http.post(
        "/srb/v1/requests", json={"model": "toy", "prompt": "a", "n": 1, "max_tokens": 2}
    ).json()
    path = f"/srb/v1/requests/{created['id']}"
    on = {"parent": {"request": created["id"], "branch": 0}, "prompt": "b", "n": 1, "max_tokens": 2}
    http.get(path + "/events")
    assert http.post(path + "/branches/0/extend", json={"max_tokens": 2}).status_code == 202
    http.get(path + "/events")
    assert http.post("/srb/v1/completions", json=on).status_code == 200
    assert states(http) == {"big": "unloaded", "toy": "loaded"}
    ask(http, "big")
    assert http.get(path).status_code == 404


@pytest.mark.full
def test_requests_for_two_models_with_one_place_all_end(serve: Start) -> None:
    http = serve(models_max=1)
    with ThreadPoolExecutor(8) as pool:
        asked = ["big", "toy"] * 4
        answers = list(pool.map(lambda name: ask(http, name, max_tokens=24), asked))
    assert [answer.json()["model"] for answer in answers] == asked
    assert all(answer.json()["tokens_predicted"] == 24 for answer in answers)


@pytest.mark.full
def test_a_model_that_answers_is_not_unloaded(serve: Start) -> None:
    http = serve(models_max=1, timeout=5.0)
    body = {
        "model": "toy",
        "prompt": "a",
        "n": 1,
        "max_tokens": 100000,
        "overflow": "shift",
        "ignore_eos": True,
        "stop": [],
    }
    created = http.post("/srb/v1/requests", json=body).json()
    refused = ask(http, "big")
    assert refused.status_code == 503 and "big" in refused.text and "Retry-After" in refused.headers
    assert states(http)["toy"] == "loaded"
    http.post(f"/srb/v1/requests/{created['id']}/cancel")


def test_one_that_does_not_fit_is_refused_in_words(serve: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "free_memory", lambda: 10**9)
    http = serve(need=2 * 10**9)
    refused = ask(http, "toy")
    assert refused.status_code == 501
    assert "toy does not fit" in refused.text and "2.0 GB" in refused.text and "1.0 GB" in refused.text


def test_memory_decides_where_no_number_does(serve: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = 0

    def free() -> int:
        return 3 * 10**9 - 2 * 10**9 * loaded

    monkeypatch.setattr(services, "free_memory", free)
    http = serve(need=2 * 10**9)
    assert ask(http, "big").status_code == 200
    close = services.Models._close  # pyright: ignore[reportPrivateUsage]

    async def counted(self: services.Models, one: services.Services) -> None:
        nonlocal loaded
        await close(self, one)
        loaded = 0

    monkeypatch.setattr(services.Models, "_close", counted)
    loaded = 1
    assert ask(http, "toy").status_code == 200
    assert states(http) == {"big": "unloaded", "toy": "loaded"}


def test_models_are_loaded_and_unloaded_by_word(serve: Start) -> None:
    http = serve()
    assert http.get("/v1/internal/model/list").json() == {"model_names": ["big", "toy"]}
    assert http.post("/v1/internal/model/load", json={"model_name": "big"}).json() == "OK"
    assert http.post("/api/v1/generate", json={"prompt": "Once", "max_length": 2}).status_code == 200
    assert http.get("/v1/internal/model/info").json()["model_name"] == "big"
    assert http.post("/v1/internal/model/unload").json() == "OK"
    assert http.post("/v1/internal/model/unload").status_code == 400
    assert states(http)["big"] == "unloaded"


def test_only_an_admin_loads_and_unloads(serve: Start) -> None:
    http = serve(api_keys=("a anna",), admin_keys=("b chief",))
    for path in ("/v1/internal/model/load", "/v1/internal/model/unload"):
        body = {"model": "toy", "model_name": "toy"}
        assert http.post(path, json=body, headers={"X-Api-Key": "a"}).status_code == 403, path
    body = {"model_name": "toy"}
    assert http.post("/v1/internal/model/load", json=body, headers={"X-Api-Key": "b"}).status_code == 200


def test_one_that_is_broken_is_said_in_words_and_tried_again(serve: Start, files: dict[str, Path]) -> None:
    whole = files["toy"].read_bytes()
    files["toy"].write_bytes(b"nonsense")
    http = serve()
    refused = ask(http, "toy")
    assert refused.status_code == 503 and "could not be loaded" in refused.text
    assert states(http)["toy"] == "failed" and ask(http, "big").status_code == 200
    files["toy"].write_bytes(whole)
    assert ask(http, "toy").status_code == 200


def test_a_conversation_in_lines_keeps_the_first(serve: Start) -> None:
    places: list[str] = []
    http = serve(models_max=1, lines=places, tcp=("0",))
    assert ask(http, "toy").status_code == 200
    with LineClient(places[0]) as client:
        assert any(line.startswith("OUTPUT") for line in client.ask("PROMPT Once upon a time,"))
        assert states(http) == {"big": "loaded", "toy": "unloaded"}
        assert http.post("/v1/internal/model/unload").status_code == 409
    assert ask(http, "toy").status_code == 200
    assert states(http) == {"big": "unloaded", "toy": "loaded"}


@pytest.mark.parametrize("most", [1, 2])
def test_somebody_elses_model_stays(most: int, engine: FakeEngine, files: dict[str, Path]) -> None:
    """As the terminal's does, beside which the server runs."""
    offers = [ModelSpec(Loaded(engine), kept=True), ModelSpec(EngineLoader(files["toy"], OPTIONS), "toy")]
    settings = ServerSettings(port=0, access_log=False, models_max=most)
    handle = start_in_thread(offers[0].loader, settings, offers)
    with httpx.Client(base_url=handle.url, timeout=120) as http:
        assert states(http) == {"fake": "loaded", "toy": "unloaded"}
        answer = ask(http, "toy")
        if most == 1:
            assert answer.status_code == 501 and "--models-max 2" in answer.text
        else:
            assert answer.json()["model"] == "toy"
        assert http.post("/v1/internal/model/unload").status_code == 501
        assert ask(http, None).json()["model"] == "fake"
    handle.stop(20)


def test_a_name_in_the_query_loads_it_with_the_body_still_to_come(serve: Start) -> None:
    client = serve(models_max=1)
    body = {"prompt": "Once", "n_predict": 2, "ignore_eos": True}
    assert client.post("/completion?model=big", json=body, timeout=60).status_code == 200
    for name in ("toy", "big"):
        answer = client.post(f"/completion?model={name}", json=body, timeout=60)
        assert answer.status_code == 200 and answer.json()["tokens_predicted"] == 2, answer.text
