"""Asking ahead over HTTP: what is wanted of it is promoted, and is there at once."""

from __future__ import annotations

import httpx

from srbwriter.engine import Engine

from .test_handles import follow, start
from .wire import wait_until


def test_a_pick_over_http_is_there_at_once(real: httpx.Client, model: Engine) -> None:
    round_one = start(real, n=2, max_tokens=20, ignore_eos=True)
    follow(real, round_one)
    parent = {"request": round_one.rsplit("/", 1)[1], "branch": 1}
    early = start(real, prompt="", parent=parent, n=3, max_tokens=20, ignore_eos=True, priority="background")
    wait_until(lambda: real.get(early).json()["state"] == "done")
    written = model.stats().generated_tokens
    assert real.post(f"{early}/promote").status_code == 202
    found = real.get(early).json()
    assert [branch["tokens"] for branch in found["branches"]] == [20] * 3
    assert found["cached_tokens"] >= found["prompt_tokens"] - 1
    assert model.stats().generated_tokens == written


def test_what_is_promoted_is_written(real: httpx.Client) -> None:
    early = start(real, n=3, max_tokens=20, ignore_eos=True, priority="background")
    assert real.post(f"{early}/promote").json()["verb"] == "promote"
    follow(real, early)
    assert [branch["tokens"] for branch in real.get(early).json()["branches"]] == [20] * 3
    assert real.post(f"{early}/promote").status_code == 202, "once more does no harm"
    for name in ("ahead", "urgent"):  # nobody pushes to the front
        answer = real.post("/srb/v1/requests", json={"prompt": "Once", "priority": name})
        assert answer.status_code == 400
        assert "normal, background" in answer.text
