"""Scenarios of taking a part, and of commands on all branches."""

from __future__ import annotations

import pytest

from srbwriter.engine.types import FinishReason
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import scenario, started


async def taken(bench: Bench, *keys: str) -> str:
    """Put known words into the first branch, press keys, and see how much a pick takes."""
    await started(bench, 1)
    bench.session.steer(0, "reroll")
    bench.session.steer(0, "stop")
    await bench.settle()
    bench.session.append(0, " One two three. Four five.\n\nSix.")
    bench.session.steer(0, "stop")
    await bench.settle()
    assert bench.texts()[0] == " One two three. Four five.\n\nSix."
    await bench.press(*keys)
    await bench.press("enter")
    return bench.session.text().removeprefix("It rained.")


@scenario
async def take_word(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "w", "w") == " One two"
    rest = bench.session.story.children(bench.session.node)
    assert any(bench.session.story.node(node).text.startswith(" three.") for node in rest)


@scenario
async def untake_word(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "w", "w", "W") == " One"


@scenario
async def take_sentence(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "d") == " One two three."


@scenario
async def untake_sentence(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "d", "d", "D") == " One two three."


@scenario
async def take_paragraph(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "f") == " One two three. Four five."


@scenario
async def untake_paragraph(bench: Bench, _: pytest.MonkeyPatch) -> None:
    assert await taken(bench, "f", "f", "F") == " One two three. Four five."


@scenario
async def generate(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+n")
    assert bench.session.round is not None
    assert len(bench.session.round.branches) == 4


@scenario
async def stop_all(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    bench.screen.run("stop_all")
    await bench.settle()
    assert not any(branch.live for branch in bench.session.round.branches)


@scenario
async def back(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.write(12)
    assert bench.screen.editor.has_focus
    await bench.press("escape")
    assert bench.screen.focused is bench.screen.grid.pane
    assert all(branch.live for branch in bench.session.round.branches)
    await bench.press("escape")
    assert not any(branch.live for branch in bench.session.round.branches)


@scenario
async def reroll_all(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    before, seeds = bench.texts(), [branch.seed for branch in bench.session.round.branches]
    await bench.press("R")
    assert bench.texts() == [""] * 4
    await bench.tokens(12)
    assert all(new.seed != old for new, old in zip(bench.session.round.branches, seeds, strict=True))
    assert bench.texts() != before


@scenario
async def more(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("plus")
    await bench.tokens(2)
    assert len(bench.session.round.branches) == 5
    assert bench.session.n == 5
    assert bench.screen.grid.panes[4].text


@scenario
async def fewer(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("minus")
    assert bench.session.n == 3
    assert bench.session.round.branches[3].finish_reason is FinishReason.KILLED


async def many(bench: Bench) -> None:
    bench.session.n = 40
    await started(bench, 2)
    assert bench.screen.grid.pages > 1


@scenario
async def next_page(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await many(bench)
    first = bench.screen.grid.shown[0].index
    await bench.choose("next_page")
    assert bench.screen.grid.shown[0].index > first
    assert bench.screen.grid.shown[0].text


@scenario
async def previous_page(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await many(bench)
    await bench.choose("next_page", "previous_page")
    assert bench.screen.grid.shown[0].index == 0
