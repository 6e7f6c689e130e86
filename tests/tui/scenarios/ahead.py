"""Writing ahead of picks."""

from __future__ import annotations

import pytest

from srbwriter.session import ahead as looking
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import head, scenario, started, visible


@scenario
async def look_ahead(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "on_battery", lambda: False)
    await started(bench, 64)
    bench.screen.run("figures")
    assert "ready" not in visible(bench)
    bench.screen.run("look_ahead")
    assert bench.session.look_ahead.mode == "focused"
    while not bench.session.look_ahead.working:  # a thread of its own asks for it
        await bench.settle()
    bench.engine_until(lambda: bench.session.look_ahead.share(0) == 1.0)
    await bench.settle()
    assert "» ahead 256/2048" in bench.screen.status_line.left
    assert "ready" in head(bench)
    texts = [b.text for b in bench.session.look_ahead._rounds[0].generation.branches]
    bench.screen.run("pick")
    await bench.settle()
    assert bench.texts() == texts
    bench.screen.run("look_ahead")
    await bench.settle()
    assert bench.session.look_ahead.mode == "all"
    bench.screen.run("look_ahead")
    await bench.settle()
    assert bench.session.look_ahead.mode == "off"
    assert not [part for part in bench.screen.status_line.left if "ahead" in part]
