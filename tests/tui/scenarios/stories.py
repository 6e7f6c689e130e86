"""Scenarios of going from one story to another, and of copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import Story, files
from srbwriter.story.backup import backups
from srbwriter.tui.dialogs.picker import Picker
from tests.tui.conftest import Bench
from tests.tui.scenarios.common import answer, opened, scenario


def left_for(bench: Bench, text: str) -> Path:
    """The story that the app ends for; this one has ``text``, unsaved keys too."""
    found = bench.app.next_story
    assert found is not None, "no other story is opened"
    with Story.open(bench.session.story.file, readonly=True) as story:
        assert story.text(story.current) == text
    return found


@scenario
async def stories(bench: Bench, _: pytest.MonkeyPatch) -> None:
    other = files.begin("The Orchard", paths.library_dir())
    await bench.write()  # branches run on while the writer leaves
    await bench.press(*" Hard")
    await bench.press("ctrl+o")
    await opened(bench, Picker)
    await bench.press(*"orch", "enter")
    assert left_for(bench, "It rained. Hard") == other


@scenario
async def new_story(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard")
    bench.screen.run("new_story")
    await answer(bench, "The Well")
    made = left_for(bench, "It rained. Hard")
    with Story.open(made, readonly=True) as story:
        assert (story.title, story.text(story.current)) == ("The Well", "")


@scenario
async def rename_story(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.screen.run("rename_story")
    await answer(bench, "  The   Long Rain ")
    assert bench.session.title == "The Long Rain"
    bench.screen.run("undo")
    assert bench.session.title != "The Long Rain"


@scenario
async def snapshot(bench: Bench, _: pytest.MonkeyPatch) -> None:
    await bench.press(*" Hard")
    bench.screen.run("snapshot")
    await answer(bench, "before the rewrite")
    [copy] = backups(bench.session.story.backup_folder(paths.backup_dir()))
    with Story.open(copy.path, readonly=True) as story:
        assert (copy.name, story.text(story.current)) == ("before the rewrite", "It rained. Hard")


@scenario
async def restore(bench: Bench, _: pytest.MonkeyPatch) -> None:
    bench.session.story.snapshot(paths.backup_dir(), "dry")
    await bench.press(*" Hard")
    bench.screen.run("restore")
    await opened(bench, Picker)
    await bench.press(*"dry", "enter")
    with Story.open(left_for(bench, "It rained. Hard"), readonly=True) as story:
        assert story.text(story.current) == "It rained."
