"""Variants side by side."""

from __future__ import annotations

import pytest
from textual.widgets import TextArea

from srbwriter.tui.dialogs.sheet import Sheet
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, opened, scenario, visible


@scenario
async def edit_variants(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.choose("edit_variants")
    area = (await opened(bench, Sheet)).query_one(TextArea)
    assert "# rain: note = It rains all day." in area.text
    area.text = "rain: It rains."
    await bench.press("ctrl+s")
    assert "is no condition" in visible(bench) and isinstance(bench.app.screen, Sheet)
    area.text = "rain: note = It rains."
    await bench.press("ctrl+s")
    assert bench.session.variants.sheet == "rain: note = It rains."


@scenario
async def variants(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.run("variants")
    assert "There are no variants yet" in visible(bench)
    bench.session.variants.put_sheet("as it is:\nrain: note = It rains.")
    bench.screen.run("variants")
    await bench.tokens(8)
    assert [head(bench, index).split("▸")[0].strip() for index in range(4)] == [
        "1 as it is", "2 as it is", "3 rain", "4 rain",
    ]  # fmt: skip
