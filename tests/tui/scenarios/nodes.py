"""Scenarios of cutting and joining nodes of the story."""

from __future__ import annotations

import pytest

from srbwriter.story import ROOT
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import scenario

WHOLE = "It rained."


def parts(bench: Bench) -> list[str]:
    """The texts of the nodes on the way to where the writer stands."""
    story = bench.session.story
    return [node.text for node in story.nodes(story.path(story.current)) if node.id != ROOT]


@scenario
async def write_from(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard.")
    bench.screen.editor.go(len(WHOLE))
    await bench.press("ctrl+b")
    await bench.tokens(12)
    assert bench.screen.editor.whole == WHOLE
    assert len(bench.texts()) == 4 and all(bench.texts())
    story = bench.session.story
    others = {node.text for node in story.nodes(story.children(bench.session.round.parent))}
    assert " Hard." in others, "what followed is no branch"
    await bench.press("escape", "ctrl+z")
    assert bench.screen.editor.whole == WHOLE + " Hard."


@scenario
async def split(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.editor.go(2)
    bench.screen.run("split")
    await bench.settle()
    assert parts(bench) == ["It", " rained."] and bench.screen.editor.whole == WHOLE
    await bench.press("ctrl+z")
    assert parts(bench) == [WHOLE] and bench.screen.editor.whole == WHOLE


@scenario
async def merge(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.split_at(2)
    await bench.press(*"!")
    bench.screen.run("merge")
    await bench.settle()
    assert parts(bench) == [WHOLE + "!"] and bench.screen.editor.whole == WHOLE + "!"
