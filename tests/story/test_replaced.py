"""The story's file is replaced while it is open, at rest, or after a kill: both versions stay on the disk."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import NotSaved, Story, checkpoint, library
from srbwriter.story.backup import snapshot
from srbwriter.story.check import check

Replace = Callable[[Path, Path], object]


def rename_over(source: Path, target: Path) -> None:
    """As a sync client does."""
    arrived = target.with_name("arriving")
    shutil.copy(source, arrived)
    arrived.replace(target)


def rewrite(source: Path, target: Path) -> None:
    """As ``cp`` does: the inode stays."""
    target.write_bytes(source.read_bytes())


@pytest.fixture(params=[rename_over, rewrite])
def replace(request: pytest.FixtureRequest) -> Replace:
    return request.param


@pytest.fixture
def theirs(written: Path, tmp_path: Path) -> Path:
    """The same story with words of another machine, which has no shadow here."""
    other = tmp_path / "other machine" / written.name
    other.parent.mkdir()
    shutil.copy(written, other)
    with Story.open(other) as story:
        story.append(" Their words.")
    return other


def text_of(path: Path) -> str:
    with Story.open(path, readonly=True) as story:
        assert story.damage is None, story.damage
        return story.text(story.current)


def come_to_rest() -> None:
    """Wait until a checkpoint has ended that was due at once."""
    for thread in threading.enumerate():
        if thread.name == "srbwriter-checkpoint":
            thread.join()


def files_in(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir() if file.is_file()}


SECOND = "a-story-your-version.srbw"


@pytest.mark.parametrize("when", ["untouched", "with words in the log", "at rest"])
def test_a_story_that_is_replaced_while_it_is_open_goes_on_in_a_second_file(
    written: Path, theirs: Path, replace: Replace, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Story.open(written) as story:
        if when == "at rest":
            monkeypatch.setattr(checkpoint, "REST_SECONDS", 0.0)
        if when != "untouched":
            story.append(" Our words.")
        if when == "at rest":
            come_to_rest()
        replace(theirs, written)
        story.append(" Our last words.")
        assert story.file == written.with_name(SECOND)
        assert story.second_file is not None and SECOND in str(story.second_file)
        assert written.read_bytes() == theirs.read_bytes()
        assert story.title == "Sixty (your version)"
        text = story.text(story.current)
        story.append(" And more.")
    assert written.read_bytes() == theirs.read_bytes()
    assert text_of(written).endswith(" Their words.")
    ours = text_of(written.with_name(SECOND))
    assert ours == f"{text} And more."
    assert ours.endswith((" Our words." if when != "untouched" else "") + " Our last words. And more.")
    assert "Their" not in ours and "<0>" in ours
    assert check(written).sound and check(written.with_name(SECOND)).sound
    assert files_in(written.parent) == {written.name, SECOND}
    assert not list((paths.state_dir() / "open").iterdir())


def test_the_last_words_before_a_replacement_are_kept_when_the_story_is_closed(
    written: Path, theirs: Path, replace: Replace
) -> None:
    with Story.open(written) as story:
        story.append(" Our words.")
        replace(theirs, written)
    assert written.read_bytes() == theirs.read_bytes()
    assert text_of(written.with_name(SECOND)).endswith(" Our words.")
    assert files_in(written.parent) == {written.name, SECOND}


def test_a_story_that_was_only_read_here_gives_way(written: Path, theirs: Path, replace: Replace) -> None:
    with Story.open(written):
        replace(theirs, written)
    assert written.read_bytes() == theirs.read_bytes()
    assert files_in(written.parent) == {written.name}


def test_a_checkpoint_does_not_change_a_file_that_was_put_there(
    written: Path, theirs: Path, replace: Replace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Story.open(written) as story:
        story.append(" Our words.")
        replace(theirs, written)
        monkeypatch.setattr(checkpoint, "REST_SECONDS", 0.0)
        story._opened.watch._checkpointer.count_commit()  # pyright: ignore
        come_to_rest()
        assert written.read_bytes() == theirs.read_bytes()


KILLED = """
import os, signal, sys
from srbwriter.story import Story, checkpoint
from tests.story.test_replaced import come_to_rest
story = Story.open(sys.argv[1])
checkpoint.REST_SECONDS = float(sys.argv[2])
story.append(" Our words.")
if sys.argv[2] == "0":
    come_to_rest()
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path, *, at_rest: bool) -> None:
    command = [sys.executable, "-c", KILLED, str(path), "0" if at_rest else "9"]
    done = subprocess.run(command, check=False, capture_output=True, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("at_rest", [False, True])
def test_a_story_that_is_replaced_after_a_kill_opens_as_it_is_and_the_log_is_a_second_story(
    written: Path, theirs: Path, replace: Replace, at_rest: bool
) -> None:
    killed(written, at_rest=at_rest)
    replace(theirs, written)
    before = {file.name: file.read_bytes() for file in written.parent.iterdir() if file.is_file()}
    assert text_of(written).endswith(" Their words.")  # whoever only looks changes nothing
    assert library.info(written).words == library.info(theirs).words
    assert check(written).sound
    snapshot(written, written.parent / "copies", "now")
    assert text_of(next((written.parent / "copies").glob("*.srbw"))).endswith(" Their words.")
    assert {file.name: file.read_bytes() for file in written.parent.iterdir() if file.is_file()} == before
    with pytest.raises(NotSaved, match="another program replaced it"):
        library.move(written, written.with_name("moved.srbw"))

    with Story.open(written) as story:
        assert story.read_only is None and story.file == written
        assert story.second_file is not None and SECOND in str(story.second_file)
        assert story.text(story.current).endswith(" Their words.")
        story.append(" Written on.")
    assert text_of(written).endswith(" Their words. Written on.")
    assert text_of(written.with_name(SECOND)).endswith(" Our words.")
    assert files_in(written.parent) == {written.name, SECOND}
    with Story.open(written) as story:
        assert story.second_file is None


@pytest.mark.parametrize("at_rest", [False, True])
def test_after_a_kill_a_file_with_another_time_is_still_the_same(written: Path, at_rest: bool) -> None:
    killed(written, at_rest=at_rest)
    shutil.copy(written, written.with_name("restored"))
    written.with_name("restored").replace(written)
    os.utime(written, (1, 1))
    with Story.open(written) as story:
        assert story.second_file is None
        assert story.text(story.current).endswith(" Our words.")
    assert files_in(written.parent) == {written.name}


def test_an_open_file_that_was_only_touched_is_still_the_same(written: Path) -> None:
    with Story.open(written) as story:
        story.append(" One.")
        os.utime(written, (1, 1))
        story.append(" Two.")
        assert story.second_file is None
    assert text_of(written).endswith(" One. Two.")


def test_a_story_at_rest_is_one_whole_file(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "REST_SECONDS", 0.0)
    with Story.open(written) as story:
        for number in range(3):
            story.append(f" Words {number}.")
            come_to_rest()
            assert Path(f"{written}-wal").stat().st_size == 0
            copy = Path(shutil.copy(written, tmp_path / f"copy {number}.srbw"))
            assert text_of(copy).endswith(f" Words {number}.")
    assert files_in(written.parent) == {written.name, *(f"copy {number}.srbw" for number in range(3))}


def test_without_a_shadow_nothing_is_written_into_a_file_of_somebody_else(
    written: Path, theirs: Path
) -> None:
    shutil.rmtree(paths.state_dir() / "open")
    (paths.state_dir() / "open").write_text("in the way")
    with Story.open(written) as story:
        story.append(" Our words.")
        rewrite(theirs, written)
        with pytest.raises(NotSaved, match="another program has changed the file"):
            story.append(" Our last words.")
    assert written.read_bytes() == theirs.read_bytes()
    assert text_of(written).endswith(" Their words.")
    assert files_in(written.parent) == {written.name, f"{written.name}-wal.kept"}


def test_a_second_window_does_not_get_in_the_way(written: Path, theirs: Path, replace: Replace) -> None:
    with Story.open(written) as story, Story.open(written) as window:
        story.append(" Our words.")
        window.refresh()
        assert window.text(window.current).endswith(" Our words.")
        replace(theirs, written)
        story.append(" Our last words.")
        with Story.open(written) as another:
            assert another.text(another.current).endswith(" Their words.")
    assert text_of(written).endswith(" Their words.")
    assert text_of(written.with_name(SECOND)).endswith(" Our words. Our last words.")
