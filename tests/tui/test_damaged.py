"""A story that cannot be written says so at once and takes no words that it would lose."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import Story, library
from srbwriter.tui.dialogs.ask import Confirm
from tests.story.branches import added
from tests.tui.conftest import OpenBench
from tests.tui.steps import opened, visible


def make(file: Path, title: str = "The Orchard") -> bytes:
    with Story.create(file, title) as story:
        for number in range(60):
            words = f" Passage {number} of the tale. " * 40
            story.visit(added(story, story.current, [words + "\n\n"])[0])
        library.daily(story.file, story.backup_folder(paths.backup_dir()))
    return file.read_bytes()


@pytest.fixture
def overwritten(tmp_path: Path) -> Path:
    file = tmp_path / "story.srbw"
    data = bytearray(make(file))
    third = len(data) // 3
    data[third : third + 20_000] = bytes(range(250)) * 80
    file.write_bytes(data)
    [copy] = paths.backup_dir().glob("*/*.srbw")
    later = copy.with_name(copy.name.replace("day ", "named ").replace(".srbw", " 23.59.59 damaged.srbw"))
    later.write_bytes(copy.read_bytes().replace(b'"node"', b'"no\xffe"', 1))
    return file


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    file = tmp_path / "story.srbw"
    file.write_bytes(make(file, "story")[:150])
    return file


async def test_an_overwritten_file_is_shown_for_what_it_is(overwritten: Path, open_bench: OpenBench) -> None:
    before = overwritten.read_bytes()
    async with open_bench("") as bench:
        await opened(bench, Confirm)
        shown = visible(bench)
        for words in ("damaged", "What is left", "What is lost", "reading only", "srbwriter backup list",
                      "srbwriter backup restore", "srbwriter check", "2 known", " 00.00, which"):  # fmt: skip
            assert words in shown, words
        await bench.press("enter")
        assert bench.app.screen is bench.screen
        text = bench.screen.editor.text
        assert "Passage 59" in text
        await bench.press(*"lost", "enter", "backspace")
        assert bench.screen.editor.text == text == bench.session.text()
        assert "reading only" in bench.said
    assert overwritten.read_bytes() == before


async def test_a_passage_in_which_one_bit_changed_is_lost_and_the_rest_goes_on_in_a_copy(
    tmp_path: Path, open_bench: OpenBench
) -> None:
    file = tmp_path / "story.srbw"
    changed = make(file).replace(b"Passage 30 of the tale", b"Massage 30 of the tale")
    file.write_bytes(changed)
    async with open_bench("") as bench:
        await opened(bench, Confirm)
        shown = visible(bench)
        assert "1 passage lost" in shown and "1 known" in shown
        await bench.press("r")
        await bench.pilot.pause()
        story = bench.app.session.story
        assert story.read_only is None and "Massage" not in "".join(node.text for node in story)
    assert file.read_bytes() == changed


async def test_nothing_begins_that_could_not_be_kept(overwritten: Path, open_bench: OpenBench) -> None:
    async with open_bench("") as bench:
        await bench.press("escape")
        for command in ("generate", "memory", "author_note", "lore", "openings", "replace"):
            bench.screen.run(command)
            await bench.pilot.pause()
            assert "damaged" in bench.last_said
            assert bench.app.screen is bench.screen, command
        assert bench.session.round is None
        assert "nodes read" not in bench.said  # a line, not the whole report
        await bench.press("ctrl+s")
        await opened(bench, Confirm)


async def test_a_copy_of_what_is_left_can_be_written(overwritten: Path, open_bench: OpenBench) -> None:
    before = overwritten.read_bytes()
    async with open_bench("") as bench:
        await opened(bench, Confirm)
        text = bench.session.text()
        await bench.press("r")
        await bench.pilot.pause()
        made = bench.app.session.story.file
    assert made != overwritten and made.parent == overwritten.parent
    assert overwritten.read_bytes() == before
    with Story.open(made) as story:
        assert story.read_only is None
        assert (story.title, story.text(story.current)) == ("The Orchard (recovered)", text)
        story.append("And on.")


async def test_a_file_of_which_nothing_is_left_offers_no_openings(cut: Path, open_bench: OpenBench) -> None:
    async with open_bench("") as bench:
        await opened(bench, Confirm)
        assert "no word of it can be read" in visible(bench)
        assert "1 known" in visible(bench)  # found by the title, as the file's own mark is lost
        await bench.press("r")
        await opened(bench, Confirm)
        await bench.press("escape", *"words")
        assert bench.app.screen is bench.screen
        assert bench.screen.editor.text == ""
        assert "reading only" in bench.said
