"""Scenarios of commands on the story and its tree."""

from __future__ import annotations

import sys
from contextlib import nullcontext

import pytest

from srbwriter.story import Story
from srbwriter.tui.dialogs.picker import Picker
from srbwriter.tui.tree.screen import TreeScreen
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, opened, scenario, started


@scenario
async def undo(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1", "ctrl+z")
    assert bench.session.text() == "It rained."
    assert bench.screen.editor.text == "It rained."


@scenario
async def redo(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    picked = bench.session.text()
    await bench.press("ctrl+z", "ctrl+y")
    assert picked != "It rained."
    assert bench.session.text() == picked == bench.screen.editor.text


@scenario
async def find(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press("ctrl+f")
    await answer(bench, "RAIN")
    assert bench.screen.editor.selected_text == "rain"


@scenario
async def replace(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.run("replace")
    await answer(bench, "rained")
    await bench.press(*"snowed", "enter")
    assert bench.session.text() == "It snowed." == bench.screen.editor.text


@scenario
async def copy_story(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.choose("copy_story")
    assert bench.app.clipboard == "It rained."


@scenario
async def own_editor(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; f = open(sys.argv[1], 'a'); f.write(' All day.\\n')"
    monkeypatch.setenv("VISUAL", f'{sys.executable} -c "{script}"')
    monkeypatch.setattr(bench.app, "suspend", nullcontext)
    await bench.press(*" Hard.", "f4", *" And long")
    assert bench.screen.editor.text == "It rained. Hard. All day. And long"
    for text in ("It rained. Hard. All day.", "It rained. Hard.", "It rained."):
        await bench.press("ctrl+z")
        assert bench.session.text() == bench.screen.editor.text == text


@scenario
async def save(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard", "ctrl+s")
    await bench.pilot.pause()
    assert bench.session.text() == "It rained. Hard"
    assert any("Saved in" in note.words for note in bench.app.messages.all)


@scenario
async def openings(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.run("openings")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.text() == "It rained."  # which stays as it is
    made = bench.app.next_story
    assert made is not None and bench.app.next_begins
    with Story.open(made, readonly=True) as story:
        assert len(story.text(story.current)) > 40


@scenario
async def tree(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    here = bench.session.node
    await bench.press("f3")
    screen = await opened(bench, TreeScreen)
    assert screen.view.row.node == here
    await bench.press("left", "enter")
    assert bench.session.node == bench.session.story.parent(here)
    assert bench.screen.editor.text == "It rained."


@scenario
async def parent(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    await bench.press("1")
    await bench.on_panes()
    await bench.choose("parent")
    assert bench.session.text() == "It rained."


@scenario
async def search(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench, 1)
    bench.session.steer(2, "append", go_on=True, text=" the zeppelin waited")
    bench.session.sync()
    await bench.choose("search")
    await answer(bench, "zeppelin")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.text().endswith("the zeppelin waited")


@scenario
async def bookmarks(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await started(bench)
    node = bench.session.round.node_of(3)
    bench.session.story.mark(node, bookmark=True)
    await bench.choose("bookmarks")
    await opened(bench, Picker)
    await bench.press("enter")
    assert bench.session.node == node
