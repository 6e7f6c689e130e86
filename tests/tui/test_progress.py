"""The line of the state: how far long work is and how esc stops it, and where the model runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from srbwriter.session import tokens
from srbwriter.tui.write import status
from tests.tui.conftest import Bench, OpenBench
from tests.tui.steps import coloured


def line(bench: Bench) -> str:
    """The first part of the status line."""
    bench.screen.flush_slowly()
    return bench.screen.status_line.left[0]


async def test_colouring_says_how_far_it_is_and_esc_stops_it(
    open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "_PROGRESS_SECONDS", 0.0)
    text = "It rained all day and the cat sat by the window. " * 8
    async with open_bench(text, settings={"instruments.colour_tokens": "surprisal"}) as bench:
        while not bench.session.tokens._scoring:
            bench.screen.pump.flush()
            await bench.pilot.pause()
        assert line(bench) == "scoring words: 0 %  ·  esc stops"
        await bench.press("escape")
        assert "scoring" not in line(bench)
        for _ in range(20):
            bench.session.engine.process()
            bench.screen.pump.flush()
        assert "scoring" not in line(bench), "it begins again by itself"
        bench.screen.editor.focus()
        bench.screen.editor.move_to(len(text))
        await bench.press("x")
        await coloured(bench, len(text))


NOTE = "The context is 4096 tokens instead of 8192."


async def test_the_end_of_the_engine_figures_says_where_the_model_runs(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        session = cast("Any", bench.session)
        session.model = replace(session.model, device="NVIDIA GeForce RTX 4070, 25 of 33 layers")
        line = status.engine_figures(session)
        assert line[-1] == "runs on NVIDIA GeForce RTX 4070, 25 of 33 layers"
