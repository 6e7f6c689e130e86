"""Pictures of the screens as they are meant to look. ``UPDATE_SNAPSHOTS=1`` takes them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from textual.widgets import Input

from srbwriter.tui.dialogs.openings import offer_openings
from tests.tui.conftest import Bench, OpenBench

FOLDER = Path(__file__).parent / "snapshots"
UPDATE = bool(os.environ.get("UPDATE_SNAPSHOTS"))
SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}
LOOKS = {"dark": "lamplight", "light": "paper", "no-color": "lamplight"}
TEXT = "The letter had been lying on the step since before the rain.\n\nNobody had stepped over it."


def picture(bench: Bench) -> str:
    """The screen as SVG, without what differs from run to run."""
    svg = bench.app.export_screenshot(title="srbwriter")
    unique = re.search(r"terminal-(\d+)-", svg)
    return svg.replace(unique.group(1), "0") if unique else svg


def compare(bench: Bench, name: str) -> None:
    file = FOLDER / f"{name}.svg"
    svg = picture(bench)
    if UPDATE:
        FOLDER.mkdir(exist_ok=True)
        file.write_text(svg, "utf-8")
    assert file.exists(), f"{file} is missing; take it with UPDATE_SNAPSHOTS=1"
    assert svg == file.read_text("utf-8"), f"the screen no longer looks like {file}"


async def frozen(bench: Bench, tokens: int = 40) -> None:
    """Branches with some tokens at a speed that is always the same, and no cursor that blinks."""
    bench.screen.pump.stop()
    bench.screen.editor.cursor_blink = False
    bench.session.generate()
    bench.session.engine.step(tokens)
    bench.session.steer(1, "kill")
    bench.session.steer(2, "stop")
    for branch in bench.session.round.branches:
        branch.started_at, branch.changed_at = 1.0, 1.0 + len(branch.buffer.ids) / 25
    bench.session.sync()
    bench.session.story.mark(bench.session.round.node_of(0), bookmark=True)
    bench.screen.pump.flush()
    await bench.on_panes()
    bench.screen.pump.flush()
    await bench.pilot.pause()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("look", LOOKS)
async def test_the_desk(look: str, size: str, open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch) -> None:
    if look == "no-color":
        monkeypatch.setenv("NO_COLOR", "1")
    settings = {"interface.theme": LOOKS[look], "interface.reduced_motion": True}
    async with open_bench(TEXT, 8, SIZES[size], settings=settings, fake=True) as bench:
        await frozen(bench)
        compare(bench, f"write-{size}-{look}")


@pytest.mark.parametrize("layout", ["right"])
async def test_the_other_layouts(layout: str, open_bench: OpenBench) -> None:
    async with open_bench(TEXT, 6, (160, 45), settings={"interface.layout": layout}, fake=True) as bench:
        await frozen(bench)
        compare(bench, f"write-{layout}")


async def test_the_screens(open_bench: OpenBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Input, "cursor_blink", False)
    async with open_bench(TEXT, 4, settings={"interface.reduced_motion": True}, fake=True) as bench:
        await frozen(bench)
        for name, command in (
            ("tree", "tree"), ("settings", "settings"),
            ("context", "context"),
        ):  # fmt: skip
            bench.screen.run(command)
            await bench.pilot.pause()
            compare(bench, name)
            await bench.press("escape")
            assert bench.app.screen is bench.screen
        bench.screen.attend(offer_openings(bench.screen))
        await bench.pilot.pause()
        compare(bench, "openings")
