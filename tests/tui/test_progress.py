"""The line of the state: how far long work is and how esc stops it, and where the model runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from srbwriter.tui.write import status
from tests.tui.conftest import OpenBench

NOTE = "The context is 4096 tokens instead of 8192."


async def test_the_end_of_the_engine_figures_says_where_the_model_runs(open_bench: OpenBench) -> None:
    async with open_bench(fake=True) as bench:
        session = cast("Any", bench.session)
        session.model = replace(session.model, device="NVIDIA GeForce RTX 4070, 25 of 33 layers")
        line = status.engine_figures(session)
        assert line[-1] == "runs on NVIDIA GeForce RTX 4070, 25 of 33 layers"
