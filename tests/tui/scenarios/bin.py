"""The scenario of the bin."""

from __future__ import annotations

import pytest

from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import opened, scenario, started


@scenario
async def bin_(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("2")
    thrown, words = bench.session.node, bench.session.text()
    await bench.choose("parent")
    bench.session.story.delete(thrown)
    await bench.on_panes()
    await bench.choose("bin")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.node == thrown
    assert bench.session.text() == words == bench.screen.editor.text
    assert bench.session.story.bin() == []
