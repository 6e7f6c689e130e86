"""Scenarios of knobs and of what the model is told."""

from __future__ import annotations

import pytest
from textual.widgets import Static

from srbwriter.story import ROOT
from srbwriter.tui.dialogs.knobs import Knobs
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.story.reading import ContextView
from srbwriter.tui.story.side_panel import SidePanel
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, opened, scenario, started


@scenario
async def knobs(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f2")
    screen = await opened(bench, Knobs)
    await bench.press("right", "right")
    assert bench.session.sampling.temperature == pytest.approx(0.9)
    await bench.press("backspace")
    assert bench.session.sampling.temperature == pytest.approx(0.8)
    await bench.press("right")
    assert screen.knob is not None


@scenario
async def memory(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("memory")
    await opened(bench, SidePanel)
    await bench.press(*"A harbour town.", "escape")
    assert bench.session.story.settings(bench.session.node).memory == "A harbour town."


@scenario
async def author_note(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("author_note")
    await opened(bench, SidePanel)
    await bench.press(*"Slowly.", "escape")
    assert bench.session.story.settings(ROOT).author_note == "Slowly."


@scenario
async def lore(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("lore")
    await opened(bench, SidePanel)
    await bench.press("n")
    await answer(bench, "Mara")
    await bench.press(*"Mara keeps the light.", "escape")
    entry = bench.session.story.settings(bench.session.node).lore[0]
    assert (entry.name, entry.keys, entry.text) == ("Mara", ["Mara"], "Mara keeps the light.")


@scenario
async def context(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("f8")
    screen = await opened(bench, ContextView)
    shown = " ".join(str(part.content) for part in screen.query(Static))
    assert "It rained." in shown and f"of {bench.session.model.n_ctx} tokens" in shown


@scenario
async def model(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    old, written = bench.session.loader, bench.texts()
    await bench.choose("model")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.loader is not old
    assert bench.session.loader.path.suffix == ".gguf"
    assert bench.texts() == written
