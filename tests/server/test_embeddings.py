"""Embeddings over HTTP, with the real engine: every form that clients send and read."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest

from srbwriter.engine.types import EngineOptions
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

from .conftest import serving

OPTIONS = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=4)


@pytest.fixture(scope="module")
def http() -> Iterator[httpx.Client]:
    yield from serving(load_engine(short_model(), OPTIONS))


def vector(http: httpx.Client, text: str) -> Any:
    (entry,) = http.post("/v1/embeddings", json={"input": text}).json()["data"]
    return entry["embedding"]


def test_the_official_client_gets_vectors(http: httpx.Client) -> None:
    """It asks for base64 unless told otherwise."""
    import openai

    with openai.OpenAI(base_url=f"{http.base_url}/v1", api_key="none") as client:
        answer = client.embeddings.create(model="m", input=["The fox ran.", "It snowed."])
        floats = client.embeddings.create(model="m", input="The fox ran.", encoding_format="float")
    assert [entry.index for entry in answer.data] == [0, 1]
    np.testing.assert_allclose(answer.data[0].embedding, floats.data[0].embedding, atol=1e-5)
    assert np.linalg.norm(answer.data[1].embedding) == pytest.approx(1.0, abs=1e-5)
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 4
    assert answer.model == "m"


def test_base64_is_little_endian_floats(http: httpx.Client) -> None:
    body = {"input": "a", "encoding_format": "base64"}
    (entry,) = http.post("/v1/embeddings", json=body).json()["data"]
    found = np.frombuffer(base64.b64decode(entry["embedding"]), "<f4")
    np.testing.assert_allclose(found, vector(http, "a"), atol=1e-6)


@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
def test_llamacpps_form(http: httpx.Client, path: str) -> None:
    (entry,) = http.post(path, json={"content": "The fox"}).json()
    assert entry["index"] == 0
    np.testing.assert_allclose(entry["embedding"][0], vector(http, "The fox"), atol=1e-5)
    unscaled = http.post(path, json={"input": "a", "embd_normalize": -1}).json()[0]["embedding"][0]
    assert np.linalg.norm(unscaled) != pytest.approx(1.0, abs=1e-3)
    (same,) = http.post("/v1/embeddings", json={"content": "The fox"}).json()
    assert same["embedding"] == entry["embedding"]


def test_what_means_nothing_is_a_400_that_names_the_field(http: httpx.Client) -> None:
    for body in (
        {}, {"input": []}, {"input": [[]]}, {"input": [1.5]}, {"input": [10**9]},
        {"encoding_format": "hex", "input": "a"}, {"dimensions": 3, "input": "a"},
        {"pooling": "median", "input": "a"}, {"input": ["a"] * 3000},
    ):  # fmt: skip
        answer = http.post("/v1/embeddings", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == next(iter(body), "input")
    answer = http.post("/v1/embeddings", json={"input": "word " * 900})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "context_length_exceeded"
