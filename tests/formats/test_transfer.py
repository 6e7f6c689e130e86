"""Stories out of files and into files: whole or not at all, here and in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter import formats
from srbwriter.formats.transfer import (
    Export,
    Import,
    Stopped,
    TransferError,
    TransferProcess,
)
from srbwriter.story import Story, StoryError
from srbwriter.story.draft import StoryDraft
from tests.formats.files import tale

LONG = 60.0  # seconds; only a failing test waits that long


LONG_STORY = 1500
"""Nodes of a story that is one chain."""


def draft(nodes: int = 100) -> StoryDraft:
    return tale(*(f" Word {number}." for number in range(2, nodes + 1)), title="Rain")


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    """Open for writing all the while, as the story on a writer's screen is."""
    with Story.from_draft(tmp_path / "rain.srbw", draft()) as story:
        yield story


def names(folder: Path) -> set[str]:
    """What there is, hidden or not, but for what an open story keeps beside its file."""
    return {file.name for file in folder.iterdir() if "rain.srbw" not in file.name}


class TestProgress:
    """The long parts report often, in order, up to the end of the part."""

    def test_of_a_whole_transfer(self, tmp_path: Path) -> None:
        Story.from_draft(tmp_path / "rain.srbw", draft(LONG_STORY)).close()
        for work in (
            Export(tmp_path / "rain.srbw", tmp_path / "o.json", "srbwriter"),
            Import(tmp_path / "o.json", tmp_path / "library"),
        ):
            shares: list[float] = []
            work.run(shares.append)
            assert shares == sorted(shares) and shares[-1] == 1 and len(shares) > 2

    @pytest.mark.parametrize("at", [0.0, 0.3, 0.5, 0.9, 1.0])
    def test_work_that_is_broken_off_leaves_nothing(self, tmp_path: Path, story: Story, at: float) -> None:
        def break_off(share: float) -> None:
            if share >= at:
                raise KeyboardInterrupt

        (tmp_path / "i.json").write_bytes(formats.write(draft(), "srbwriter"))
        before = names(tmp_path)
        out = Export(story.file, tmp_path / "o.md", "markdown")
        for work in (out, Import(tmp_path / "i.json", tmp_path)):
            with pytest.raises(KeyboardInterrupt):
                work.run(break_off)
        assert names(tmp_path) == before


class TestPlaces:
    def test_an_export_replaces_only_by_force(self, tmp_path: Path, story: Story) -> None:
        target = tmp_path / "o.txt"
        target.write_text("mine")
        with pytest.raises(TransferError, match="o.txt: is there already"):
            Export(story.file, target, "text").run()
        assert target.read_text() == "mine" and names(tmp_path) == {"o.txt"}
        Export(story.file, target, "text", force=True).run()
        assert target.read_text().endswith("Word 100.") and names(tmp_path) == {"o.txt"}

    def test_imports_of_one_title_lie_side_by_side(self, tmp_path: Path) -> None:
        file = tmp_path / "tale.txt"
        file.write_text("Once.")
        found = [Import(file, tmp_path / "library").run().path.name for _ in range(2)]
        assert found == ["tale.srbw", "tale-2.srbw"] and names(tmp_path / "library") == set(found)


class TestAside:
    def test_a_story_goes_out_and_comes_back(self, tmp_path: Path, story: Story) -> None:
        out = TransferProcess(Export(story.file, tmp_path / "o.json", "srbwriter"))
        assert out.wait(LONG) and out.share == 1
        assert (out.result().path, out.result().title) == (tmp_path / "o.json", "Rain")
        back = TransferProcess(Import(tmp_path / "o.json", tmp_path / "library"))
        assert back.wait(LONG)
        assert names(tmp_path) == {"o.json", "library"} and names(tmp_path / "library") == {"Rain.srbw"}
        with Story.open(back.result().path, readonly=True) as again:
            assert again.draft() == story.draft()

    def test_a_refusal_is_told_in_the_same_words(self, tmp_path: Path) -> None:
        (tmp_path / "broken.json").write_text('{"text": "a", "children": [{"text": "b", ')
        work = TransferProcess(Import(tmp_path / "broken.json", tmp_path))
        assert work.wait(LONG)
        with pytest.raises(TransferError, match=r"broken\.json: at line 1, column \d+: expected JSON"):
            work.result()
        assert names(tmp_path) == {"broken.json"}

    def test_cancelled_in_the_middle_of_a_new_story(self, tmp_path: Path) -> None:
        (tmp_path / "i.json").write_bytes(formats.write(draft(15_000), "srbwriter"))
        work = TransferProcess(Import(tmp_path / "i.json", tmp_path))
        begun = time.monotonic()
        while work.share < 0.35 and time.monotonic() < begun + LONG:
            time.sleep(0.005)
        _cancelled(work)
        assert names(tmp_path) == {"i.json"}

    def test_when_the_program_is_killed_its_transfer_ends_too(self, tmp_path: Path) -> None:
        (tmp_path / "i.json").write_bytes(formats.write(draft(15_000), "srbwriter"))
        program = f"""
import os, pathlib, time
from srbwriter.formats.transfer import TransferProcess
from srbwriter.formats.transfer import Import
folder = pathlib.Path({str(tmp_path)!r})
work = TransferProcess(Import(folder / "i.json", folder))
while work.share < 0.35:
    time.sleep(0.005)
os.kill(os.getpid(), 9)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
        begun = time.monotonic()
        while names(tmp_path) != {"i.json"}:
            assert time.monotonic() < begun + LONG
            time.sleep(0.02)


def _cancelled(work: TransferProcess) -> None:
    assert work.cancel()
    assert work.wait(LONG)
    with pytest.raises(Stopped):
        work.result()
    assert isinstance(Stopped("x"), StoryError)
