"""Stories out of files and into files: whole or not at all, here and in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from srbwriter.story import ROOT, Story, StoryError, formats, library, transfer
from srbwriter.story.model import DraftNode, StoryDraft
from srbwriter.story.transfer import (
    Export,
    Import,
    Made,
    Stopped,
    TransferError,
    TransferFailed,
    TransferProcess,
    carry_out,
)

LONG = 60.0  # seconds; only a failing test waits that long


LONG_STORY = 1500
"""Nodes of a story that is one chain."""


def draft(nodes: int = 100) -> StoryDraft:
    chain = [DraftNode("1")] + [DraftNode(str(i), str(i - 1), 0, f" Word {i}.") for i in range(2, nodes + 1)]
    return StoryDraft(chain, str(nodes), title="Rain")


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
            work.land(work.make(shares.append))
            assert shares == sorted(shares) and shares[-1] == 1 and len(shares) > 4

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
                carry_out(_Told(work, break_off))
        assert names(tmp_path) == before


@dataclass
class _Told:
    work: Export | Import
    progress: Callable[[float], object]

    def make(self, _: object = None) -> Made:
        return self.work.make(self.progress)

    def land(self, made: Made) -> transfer.Landed:
        return self.work.land(made)

    def drop(self) -> None:
        self.work.drop()


class TestPlaces:
    def test_an_export_replaces_only_by_force(self, tmp_path: Path, story: Story) -> None:
        target = tmp_path / "o.txt"
        target.write_text("mine")
        with pytest.raises(TransferError, match="o.txt: is there already"):
            carry_out(Export(story.file, target, "text"))
        assert target.read_text() == "mine" and names(tmp_path) == {"o.txt"}
        carry_out(Export(story.file, target, "text", force=True))
        assert target.read_text().endswith("Word 100.") and names(tmp_path) == {"o.txt"}

    @pytest.mark.parametrize("when", [1, 2])
    @pytest.mark.parametrize("verb", ["merge", "split", "undo", "set_text"])
    def test_a_story_that_is_changed_meanwhile_is_exported_as_it_was_once(
        self, tmp_path: Path, verb: str, when: int
    ) -> None:
        """The index and the texts are of one moment, and no word is missing or there twice."""
        with Story.create(tmp_path / "rain.srbw") as story:
            [first] = story.add(ROOT, ["It rained. "])
            [second] = story.add(first, ["It was late."], stand=True)
            verbs: dict[str, Callable[[], object]] = {
                "merge": lambda: story.merge(second),
                "split": lambda: story.split(first, 3),
                "undo": story.undo,
                "set_text": lambda: story.set_text("It poured. It was late. Go."),
            }
            story.flush()
            seen, shares = {story.text(story.current)}, list[float]()

            def change(share: float) -> None:
                shares.append(share)
                if len(shares) == when:
                    verbs[verb]()
                    seen.add(story.text(story.current))

            _, data = transfer.rendered(story.file, "text", change)
            assert data.decode() in seen

    def test_imports_of_one_title_lie_side_by_side(self, tmp_path: Path) -> None:
        file = tmp_path / "tale.txt"
        file.write_text("Once.")
        found = [carry_out(Import(file, tmp_path / "library")).path.name for _ in range(2)]
        assert found == ["tale.srbw", "tale-2.srbw"] and names(tmp_path / "library") == set(found)

    def test_without_links_a_story_is_moved_and_none_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(os, "link", refuse)
        one, other = (tmp_path / name for name in ("a.srbw", "b.srbw"))
        Story.create(one, "One").close()
        assert library.move(one, other) == other and not one.exists()
        Story.create(one, "Two").close()
        with pytest.raises(library.Taken):
            library.move(one, other)
        assert library.info(one).title == "Two" and library.info(other).title == "One"

    @pytest.mark.parametrize(
        ("name", "words"),
        [("folder", "name a file in it"), ("none/o.txt", "there is no such folder"), ("o.txt", "already")],
    )
    def test_what_cannot_be_written_is_said_before(self, tmp_path: Path, name: str, words: str) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "o.txt").touch()
        with pytest.raises(TransferError, match=words):
            transfer.check_target(tmp_path / name, force=False)
        transfer.check_target(tmp_path / "o.txt", force=True)


class TestAside:
    def test_a_story_goes_out_and_comes_back(self, tmp_path: Path, story: Story) -> None:
        out = TransferProcess(Export(story.file, tmp_path / "o.json", "srbwriter")).start()
        assert out.wait(LONG) and out.share == 1 and out.seconds > 0
        assert (out.result().path, out.result().title) == (tmp_path / "o.json", "Rain")
        back = TransferProcess(Import(tmp_path / "o.json", tmp_path / "library")).start()
        assert back.wait(LONG)
        assert names(tmp_path) == {"o.json", "library"} and names(tmp_path / "library") == {"Rain.srbw"}
        with Story.open(back.result().path, readonly=True) as again:
            assert again.to_draft() == story.to_draft()

    def test_a_refusal_is_told_in_the_same_words(self, tmp_path: Path) -> None:
        (tmp_path / "broken.json").write_text('{"text": "a", "children": [{"text": "b", ')
        work = TransferProcess(Import(tmp_path / "broken.json", tmp_path)).start()
        assert work.wait(LONG)
        with pytest.raises(TransferFailed, match=r"broken\.json: at line 1, column \d+: expected JSON"):
            work.result()
        assert names(tmp_path) == {"broken.json"}

    def test_a_defect_is_told_and_logged(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        (tmp_path / "o").mkdir()
        work = TransferProcess(Import(tmp_path / "x", tmp_path, data="words")).start()  # type: ignore[arg-type]
        assert work.wait(LONG)
        with pytest.raises(TransferFailed, match="log"):
            work.result()
        assert "Traceback" in caplog.text and names(tmp_path) == {"o"}

    def test_cancelled_in_the_middle_of_a_new_story(self, tmp_path: Path) -> None:
        (tmp_path / "i.json").write_bytes(formats.write(draft(15_000), "srbwriter"))
        work = TransferProcess(Import(tmp_path / "i.json", tmp_path)).start()
        begun = time.monotonic()
        while work.share < 0.35 and time.monotonic() < begun + LONG:
            time.sleep(0.005)
        assert any(name.endswith(".part") for name in names(tmp_path))
        _cancelled(work)
        assert names(tmp_path) == {"i.json"}

    def test_when_the_program_is_killed_its_transfer_ends_too(self, tmp_path: Path) -> None:
        (tmp_path / "i.json").write_bytes(formats.write(draft(15_000), "srbwriter"))
        program = f"""
import os, pathlib, time
from srbwriter.story.transfer import TransferProcess
from srbwriter.story.transfer import Import
folder = pathlib.Path({str(tmp_path)!r})
work = TransferProcess(Import(folder / "i.json", folder)).start()
while work.share < 0.35:
    time.sleep(0.005)
os.kill(os.getpid(), 9)
"""
        assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
        begun = time.monotonic()
        while names(tmp_path) != {"i.json"}:
            assert time.monotonic() < begun + LONG
            time.sleep(0.02)

    def test_a_process_that_dies_is_a_failure(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        work = TransferProcess(Import(tmp_path / "pipe", tmp_path)).start()
        while work._process is None:
            time.sleep(0.005)
        work._process.kill()
        assert work.wait(LONG)
        with pytest.raises(TransferFailed, match="before its time"):
            work.result()


def _cancelled(work: TransferProcess) -> None:
    assert work.cancel()
    assert work.wait(LONG)
    with pytest.raises(Stopped):
        work.result()
    assert isinstance(Stopped("x"), StoryError)
