"""Scenarios of taking a part, and of commands on all branches."""

from __future__ import annotations

import pytest

from srbwriter.engine.types import FinishReason
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import SCENARIOS, scenario, started

WHOLE = " One two three. Four five.\n\nSix."


def takes(command: str, *keys: str, text: str) -> None:
    """The scenario of a command: with ``keys``, a pick takes ``text`` and the rest stays in the tree."""

    async def act(bench: Bench, _: pytest.MonkeyPatch) -> None:
        await started(bench, 1)
        bench.session.steer(0, "reroll")
        bench.session.steer(0, "stop")
        await bench.settle()
        bench.session.steer(0, "append", go_on=True, text=WHOLE)
        bench.session.steer(0, "stop")
        await bench.settle()
        assert bench.texts()[0] == WHOLE
        await bench.press(*keys, "enter")
        assert bench.session.text() == f"It rained.{text}"
        story = bench.session.story
        below = [node.text for node in story.nodes(story.children(bench.session.node))]
        assert any(rest.startswith(WHOLE.removeprefix(text)) for rest in below)

    SCENARIOS[command] = act


takes("take_word", "w", "w", text=" One two")
takes("untake_word", "w", "w", "W", text=" One")
takes("take_sentence", "d", text=" One two three.")
takes("untake_sentence", "d", "d", "D", text=" One two three.")
takes("take_paragraph", "f", text=" One two three. Four five.")
takes("untake_paragraph", "f", "f", "F", text=" One two three. Four five.")


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
