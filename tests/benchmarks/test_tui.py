"""The benchmark of the terminal app runs through with a model behind it."""

from __future__ import annotations

import json

import pytest

from benchmarks.tui import main


def test_a_model_writes_behind_the_app_and_alone(capfd: pytest.CaptureFixture[str]) -> None:
    main("--only writing speed --panes 2 --tokens 6 --keys 4 --turns 1 --threads 1".split())
    head, keys, speed = capfd.readouterr().out.strip().splitlines()
    assert "core" in head
    assert "storyteller.gguf, 2 panes, keys" in keys
    delays = json.loads(keys[keys.index("{") :])
    assert delays["keys lost"] == 0 and 0 < delays["key p50 ms"] <= delays["key p99 ms"]
    figures = json.loads(speed[speed.index("{") :])
    assert figures["headless tok/s"] > 0 and figures["with the app tok/s"] > 0
    assert figures["ratio"] == pytest.approx(
        figures["with the app tok/s"] / figures["headless tok/s"], abs=0.01
    )
