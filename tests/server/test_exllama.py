"""exllama's small server: plain text, and the chat page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from srbwriter import launch
from srbwriter.cli.table import every_key
from srbwriter.config import load
from srbwriter.engine import ModelError
from srbwriter.engine.types import Sampling
from tests.fakes.engine import FakeEngine

BODY: dict[str, Any] = {"message": "Once upon a time,", "max_new_tokens": 6}
TEXT = " there was a cat. The"


def test_it_comes_as_it_is_written(client: httpx.Client, engine: FakeEngine) -> None:
    """As plain text without frames."""
    engine.hold = 2
    with client.stream("POST", "/generate", json=BODY) as answer:
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        pieces = answer.iter_text()
        begun = next(pieces)
        assert TEXT.startswith(begun) and begun != TEXT
        engine.release()
        assert begun + "".join(pieces) == TEXT


def test_characters_come_whole(client: httpx.Client) -> None:
    with client.stream("POST", "/generate", json={**BODY, "max_new_tokens": 100}) as answer:
        pieces = [piece.decode() for piece in answer.iter_raw()]
    assert "naïve 🐈" in "".join(pieces)


def test_a_list_of_texts(client: httpx.Client, engine: FakeEngine) -> None:
    assert client.post("/generate", json={**BODY, "stream": False}).json() == [TEXT]
    assert client.post("/generate", json={**BODY, "stream": False, "n": 3}).json() == [TEXT] * 3
    assert client.post("/generate", json={**BODY, "n": 3}).status_code == 400
    client.post("/generate", json={**BODY, "prompt": "User: {user_input}\nThey:"})
    assert engine.submitted[-1].prompt == "User: Once upon a time,\nThey:"
    for wrong in ({}, {"message": 5}, {"message": None}, {**BODY, "prompt": 5}):
        answer = client.post("/generate", json=wrong)
        assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_its_spellings_and_what_is_usual(client: httpx.Client, engine: FakeEngine) -> None:
    client.post("/generate", json=BODY)
    sent = {"token_repetition_penalty_max": 1.4, "token_repetition_penalty_sustain": 99, "log": False,
            "token_repetition_penalty_decay": 50}  # fmt: skip
    client.post("/generate", json={**BODY, **sent})
    usual, reply = (
        r.sampling if isinstance(r.sampling, Sampling) else r.sampling[0] for r in engine.submitted
    )
    assert (usual.temperature, usual.top_k, usual.top_p, usual.min_p) == (0.7, 20, 0.65, 0.06)
    assert (usual.repeat_penalty, usual.repeat_last_n) == (1.15, 256)
    assert (reply.repeat_penalty, reply.repeat_last_n) == (1.4, 99)


def test_check_names_the_model(client: httpx.Client) -> None:
    assert client.get("/check").json() == ["fake"]
    assert client.get("/chat").headers["content-type"].startswith("text/html")
    assert client.get("/kill").status_code == 404  # whoever may write may not end the server


# ---- -d FOLDER


def path_of(folder: Path) -> Path:
    return launch.model_path(load(every_key(), {"model.path": folder}, {}, None))


def test_a_folder_stands_for_the_model_in_it(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model"):
        path_of(tmp_path)
    for name in ("tale-Q4_K_M-00002-of-00002.gguf", "tale-Q4_K_M-00001-of-00002.gguf", "README.md"):
        (tmp_path / name).touch()
    assert path_of(tmp_path).name == "tale-Q4_K_M-00001-of-00002.gguf"
    (tmp_path / "b.gguf").touch()
    with pytest.raises(ModelError, match="b.gguf"):
        path_of(tmp_path)
