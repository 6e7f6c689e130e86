"""What the picks of a story prefer."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from srbwriter.tui.dialogs.preferences import PicksView
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import opened, scenario, started


async def found(bench: Bench) -> str:
    """What the page says once the picks are counted."""
    await bench.choose("preferences")
    view = await opened(bench, PicksView)
    view._findings.result(60)
    view._look()
    return str(view.query_one("#picks-found", Static).content)


@scenario
async def preferences(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert "0 picks so far, too few to compare" in await found(bench)
    await bench.press("escape")
    bench.session.sweep = ("temperature", 0.5, 1.5)
    for _round in range(8):
        await started(bench, 4)
        bench.screen.run("pick_number", 4)
    said = await found(bench)
    assert "Temperature · 8 picks" in said and "Preset" not in said
    lines = {line.split()[0]: line for line in said.splitlines() if "%" in line and "●" in line}
    assert list(lines) == ["0.5", "0.833", "1.17", "1.5"]
    assert lines["1.5"].endswith("●  preferred") and "100 %" in lines["1.5"]
    await bench.press("escape")
    assert bench.app.screen is bench.screen and bench.session.sweep == ("temperature", 0.5, 1.5)
