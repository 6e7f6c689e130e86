"""exllama's small server: plain text, and the chat page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from srbwriter import launch
from srbwriter.cli.table import every_key
from srbwriter.config import load
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


def test_a_list_of_texts(client: httpx.Client, engine: FakeEngine) -> None:
    assert client.post("/generate", json={**BODY, "stream": False}).json() == [TEXT]
    assert client.post("/generate", json={**BODY, "stream": False, "n": 3}).json() == [TEXT] * 3
    assert client.post("/generate", json={**BODY, "n": 3}).status_code == 400
    client.post("/generate", json={**BODY, "prompt": "User: {user_input}\nThey:"})
    assert engine.submitted[-1].prompt == "User: Once upon a time,\nThey:"
    for wrong in ({}, {"message": 5}, {"message": None}, {**BODY, "prompt": 5}):
        answer = client.post("/generate", json=wrong)
        assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_check_names_the_model(client: httpx.Client) -> None:
    assert client.get("/check").json() == ["fake"]
    assert client.get("/chat").headers["content-type"].startswith("text/html")
    assert client.get("/kill").status_code == 404  # whoever may write may not end the server


# ---- -d FOLDER


def path_of(folder: Path) -> Path:
    return launch.model_path(load(every_key(), {"model.path": folder}, {}, None))
