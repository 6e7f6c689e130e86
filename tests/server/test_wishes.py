"""A wish over a socket, on the bundled model."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from srbwriter.engine import Engine
from srbwriter.session.framing import wish_prompt

from .test_handles import follow

STORY = "Once upon a time, there was a little fox.\n\nHe lived in the wood and"
BODY: dict[str, Any] = {"n": 2, "max_tokens": 8, "temperature": 0, "stop": []}


def written(client: httpx.Client, model: Engine, **fields: Any) -> tuple[int, str]:
    model.reset()  # what is cached changes the last bits
    path = client.post("/srb/v1/requests", json={**BODY, **fields}).headers["location"]
    follow(client, path)
    record = client.get(path).json()
    return record["prompt_tokens"], record["branches"][0]["text"]


def test_a_wish_is_a_note_near_the_end_of_the_prompt(real: httpx.Client, model: Engine) -> None:
    wished = written(real, model, prompt=STORY, wish=" more\nrain. ")
    assert wished == written(real, model, prompt=wish_prompt(STORY, "more rain"))
    assert written(real, model, prompt=STORY, wish="") == written(real, model, prompt=STORY)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"prompt": [1, 5, 7], "wish": "shorter"}, "must be text"),
        ({"prompt": STORY, "wish": 3}, "expected text"),
        ({"prompt": STORY, "wish": "x" * 501}, "500 characters"),
    ],
)
def test_a_wish_that_cannot_be_put_is_refused(
    real: httpx.Client, fields: dict[str, Any], problem: str
) -> None:
    answer = real.post("/srb/v1/completions", json={**BODY, **fields})
    assert answer.status_code == 400 and problem in answer.json()["error"]


def test_a_wish_with_a_parent_is_refused(real: httpx.Client) -> None:
    path = real.post("/srb/v1/requests", json={**BODY, "prompt": STORY}).headers["location"]
    follow(real, path)
    parent = {"request": path.rpartition("/")[2], "branch": 0}
    answer = real.post("/srb/v1/completions", json={**BODY, "parent": parent, "wish": "shorter"})
    assert answer.status_code == 400 and "parent" in answer.json()["error"]
