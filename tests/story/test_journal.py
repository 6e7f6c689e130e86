"""The journal: what is on the disk when, after a kill, with a full disk, and when others change the file."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from srbwriter import paths
from srbwriter.story import Edit, NotSaved, Story, journal
from srbwriter.story.journal import RowFile, changes_of, lock_of
from srbwriter.story.library import backups, info, snapshot
from srbwriter.story.model import NotAStory
from tests.story.branches import added

REPO = Path(__file__).parents[2]
KILLED = """
import sys, time
from srbwriter.story import Story
story = Story.open(sys.argv[1])
story.append(" Ours.")
story.flush()
print("written", flush=True)
time.sleep(60)
"""


def until(done: Callable[[], object], seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < ends, "it takes too long"
        time.sleep(0.02)


def killed(file: Path) -> None:
    """Let another process write into the story and be killed."""
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE, cwd=REPO)
    with child:
        assert child.stdout is not None and child.stdout.readline() == b"written\n"
        child.send_signal(signal.SIGKILL)


def text_in(path: Path) -> str:
    with Story.open(path, readonly=True) as story:
        assert not story.damage
        return story.text(story.current)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rain.srbw"
    with Story.create(path, "Rain") as story:
        story.append("It rained.")
    return path


def another(file: Path, words: str) -> Path:
    """A later version of the story, as another machine has written it."""
    other = file.with_name("other.srbw")
    shutil.copy(file, other)
    with Story.open(other) as story:
        story.append(words)
    return other


# -- at rest, and after a kill -------------------------------------------------------------------------


def test_a_story_that_is_saved_is_one_whole_file(file: Path) -> None:
    with Story.open(file) as story:
        story.append(" It poured.")
        until(lambda: story.save_state.saved)
        assert text_in(file) == "It rained. It poured." and info(file).words == 4
        shutil.copy(file, file.with_name("copied.srbw"))
    assert text_in(file.with_name("copied.srbw")) == "It rained. It poured."
    assert {path.name for path in file.parent.iterdir()} == {"rain.srbw", "copied.srbw"}
    assert not changes_of(file).exists()


def test_words_that_were_saved_survive_a_kill(file: Path) -> None:
    killed(file)
    with Story.open(file) as story:
        assert (story.text(story.current), story.replaced) == ("It rained. Ours.", "")
        story.undo()
        assert story.text(story.current) == "It rained."
    assert not changes_of(file).exists() and not lock_of(file).exists()


def test_a_batch_that_was_not_written_whole_is_left_out(file: Path) -> None:
    killed(file)
    whole = file.read_bytes()
    file.write_bytes(whole + whole[-300:-5])
    assert text_in(file) == "It rained. Ours."
    changes_of(file).unlink()
    file.write_bytes(whole[:-5])
    assert text_in(file) == "It rained." and not info(file).problem
    with Story.open(file) as story:
        story.append(" Again.")
    assert text_in(file) == "It rained. Again."


# -- a file that another program replaces --------------------------------------------------------------


def copied(source: Path, target: Path) -> None:
    target.write_bytes(source.read_bytes())


@pytest.mark.parametrize("put", [copied, os.replace])
def test_a_file_replaced_after_a_kill_opens_as_it_is_and_ours_is_beside_it(
    file: Path, put: Callable[[Path, Path], object]
) -> None:
    other = another(file, " Theirs.")
    killed(file)
    put(other, file)
    with Story.open(file) as story:
        assert story.text(story.current) == "It rained. Theirs."
        assert story.file == file and "yours is in rain-your-version.srbw" in story.replaced
    assert "Ours." in text_in(file.with_name("rain-your-version.srbw"))


@pytest.mark.parametrize("put", [copied, os.replace])
def test_a_file_replaced_while_it_is_open_makes_a_second_one(
    file: Path, put: Callable[[Path, Path], object]
) -> None:
    other = another(file, " Theirs.")
    with Story.open(file) as story:
        story.append(" Ours.")
        story.flush()
        put(other, file)
        story.append(" And more.")
        story.flush()
        assert "Another program changed rain.srbw" in story.replaced and story.file.name in story.replaced
        assert story.title == "Rain (your version)"
    assert text_in(file) == "It rained. Theirs."
    assert text_in(story.file) == "It rained. Ours. And more."


def test_an_idle_story_whose_file_is_replaced_keeps_what_it_wrote(file: Path) -> None:
    other = another(file, " Theirs.")
    with Story.open(file) as story:
        story.append(" Ours.")
        story.flush()
        os.replace(other, file)
    assert (text_in(file), text_in(story.file)) == ("It rained. Theirs.", "It rained. Ours.")


def test_a_copy_put_back_by_hand_is_what_opens(file: Path, tmp_path: Path) -> None:
    copy = shutil.copy(file, tmp_path / "before.srbw")
    killed(file)
    shutil.copy(copy, file)
    with Story.open(file) as story:
        assert story.text(story.current) == "It rained." and story.replaced


def test_another_story_in_the_place_of_the_file_is_not_mixed_with_ours(file: Path, tmp_path: Path) -> None:
    killed(file)
    with Story.create(tmp_path / "snow.srbw", "Snow") as other:
        added(other, other.current, ["It snowed.", "All day."])
    os.replace(other.file, file)
    with Story.open(file) as story:
        assert (story.title, [node.text for node in story]) == ("Snow", ["", "It snowed.", "All day."])
    with Story.open(file.with_name("rain-your-version.srbw")) as ours:
        assert ours.title == "rain (your version)" and not ours.damage
        assert [node.text for node in ours] == ["It rained. Ours.", ""]


def test_a_new_story_leaves_the_words_that_were_kept_for_another_one(file: Path) -> None:
    """As where the disk of that one is not there."""
    killed(file)
    file.unlink()
    with Story.create(file, "Snow") as story:
        assert len(story) == 1 and story.file == file
    assert text_in(file) == "" and not changes_of(file).exists()
    assert text_in(file.with_name("rain-your-version.srbw")) == "It rained. Ours."


def test_a_file_that_was_deleted_is_written_again(file: Path) -> None:
    with Story.open(file) as story:
        file.unlink()
        story.append(" It poured.")
        story.flush()
    assert text_in(file) == "It rained. It poured."


# -- a disk that takes no words ------------------------------------------------------------------------


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether the disk of the story is full."""
    state = {"full": False}
    append = RowFile.append

    def refuse(file: RowFile, *arguments: Any, **more: Any) -> object:
        if state["full"] and file.path.name == "rain.srbw":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return append(file, *arguments, **more)

    monkeypatch.setattr(RowFile, "append", refuse)
    return lambda now: state.update(full=now)


def test_a_full_disk_is_said_and_tried_again(file: Path, full: Callable[[bool], None]) -> None:
    with Story.open(file) as story:
        full(True)
        story.append(" It poured.")
        with pytest.raises(NotSaved, match="not saved"):
            story.flush()
        assert (
            story.save_state.trouble is not None
            and story.save_state.trouble.problem.startswith("the disk is full — ")
            and "NOT SAVED" in str(story.save_state)
        )
        assert story.save_state.rescue is not None
        for _ in range(5):  # attempts are far apart then
            with pytest.raises(NotSaved):
                story.flush()
        story.append(" It hailed.")
        until(lambda: b"hailed" in changes_of(file).read_bytes(), 2.0)  # whatever kills the program now
        full(False)
        until(lambda: story.save_state.saved)
        assert story.save_state.rescue is None
    assert text_in(file) == "It rained. It poured. It hailed."


def test_words_the_disk_refused_to_the_end_are_there_at_the_next_opening(
    file: Path, full: Callable[[bool], None]
) -> None:
    with Story.open(file) as story:
        story.append(" Once.")
        story.undo()
    story = Story.open(file)
    story.append(" It poured.")
    story.flush()
    full(True)
    story.append(" It hailed.")
    with pytest.raises(NotSaved):
        story.close()
    with Story.open(file) as view:
        assert view.read_only is not None and "the disk is full" in view.read_only.message
        assert view.text(view.current) == "It rained. It poured. It hailed."
    full(False)
    with Story.open(file) as again:
        assert again.text(again.current) == "It rained. It poured. It hailed."
        assert not again.replaced and again.redo() is None
    assert text_in(file) == "It rained. It poured. It hailed." and not changes_of(file).exists()


def test_what_is_kept_elsewhere_stays_when_there_is_no_room_either(
    file: Path, full: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        with changes_of(file).open("ab") as kept:
            kept.write(b"torn")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    story = Story.open(file)
    full(True)
    for words in (" It poured.", " It hailed.", " It snowed."):
        added(story, story.current, [words])
        with monkeypatch.context() as both:
            if "hailed" in words:
                both.setattr(paths, "make_folder", refuse)
            with pytest.raises(NotSaved):
                story.flush()
        assert b"poured" in changes_of(file).read_bytes()
    with pytest.raises(NotSaved):
        story.close()
    full(False)
    with Story.open(file) as again:
        assert {node.text for node in again} >= {" It poured.", " It hailed.", " It snowed."}


def test_a_file_that_cannot_be_read_for_a_moment_is_not_taken_for_another_one(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> RowFile:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Story.open(file) as story:
        os.utime(file, (1, 1))
        with monkeypatch.context() as broken:
            broken.setattr(journal, "last_batch", refuse)
            story.append(" It poured.")
            with pytest.raises(NotSaved, match="Input/output error"):
                story.flush()
        story.flush()
        assert (story.file, story.replaced) == (file, "")
    assert text_in(file) == "It rained. It poured."


def test_a_story_is_saved_where_nothing_can_be_kept_beside_it(file: Path) -> None:
    with Story.open(file) as story:
        story.append(" It poured.")
        story.flush()
        folder = changes_of(file).parent
        shutil.rmtree(folder)
        folder.touch()
        story.append(" It hailed.")
        story.flush()
        assert text_in(file) == "It rained. It poured. It hailed."
    with Story.open(file) as story:
        assert story.read_only is None


# -- a second window -----------------------------------------------------------------------------------


def test_a_second_window_follows_and_takes_over(file: Path) -> None:
    first = Story.open(file)
    with Story.open(file) as second:
        assert second.read_only is not None and second.read_only.reason == "in use"
        first.append(" It poured.")
        first.flush()
        assert second.follow() and second.text(second.current) == "It rained. It poured."
        assert not second.follow()
        first.close()
        assert second.follow() and second.read_only is None
        second.append(" It hailed.")
    assert text_in(file) == "It rained. It poured. It hailed."


# -- damage --------------------------------------------------------------------------------------------


def test_a_changed_text_is_lost_and_every_other_one_kept(file: Path, tmp_path: Path) -> None:
    with Story.open(file) as story:
        node, lost = added(story, story.current, [" Two.", " Three."], stand=True)
        [below] = added(story, lost, [" Four."])
        folder = story.backup_folder(tmp_path / "copies")
    copy = snapshot(file, folder, "good")
    data = file.read_bytes()
    assert data.count(b" Three.") == 1
    file.write_bytes(data.replace(b" Three.", b" Thrxe."))
    with Story.open(file) as story:
        assert story.damage.startswith("1 line of it cannot be read; 1 passage lost")
        assert story.read_only is not None and story.read_only.reason == "damaged"
        assert (story.node(node).text, story.text(below)) == (" Two.", " Four.")
        made = tmp_path / "again.srbw"
        Story.from_draft(made, story.draft()).close()
        assert [each.path for each in backups(folder)] == [copy]
    with Story.open(made) as story:
        assert story.read_only is None and story.text(below) == " Four."


def test_a_node_whose_last_row_is_damaged_is_as_the_row_before_says(file: Path) -> None:
    with Story.open(file) as story:
        story.append(" It poured.")
    data = file.read_bytes()
    assert data.count(b"It rained. It poured.") == 1
    file.write_bytes(data.replace(b"It rained. It poured.", b"It rained. It xoured."))
    with Story.open(file) as story:
        assert story.damage == "1 line of it cannot be read"
        assert story.text(story.current) == "It rained."


@pytest.mark.parametrize("page", [0, 2, 5, 14])
def test_a_lost_page_costs_what_was_in_it(file: Path, page: int) -> None:
    with Story.open(file) as story:
        node = story.current
        for number in range(200):
            [node] = added(story, node, [f"<{number}> " + "It rained all day. " * 8], stand=True)
    data = bytearray(file.read_bytes())
    data[4096 * page : 4096 * (page + 1)] = os.urandom(4096)
    file.write_bytes(data)
    with Story.open(file) as story:
        assert story.damage and story.read_only is not None
        kept = sum("<" in node.text for node in story)
        assert kept >= 150


def test_a_file_that_was_cut_off_keeps_what_is_left(file: Path) -> None:
    with Story.open(file) as story:
        added(story, story.current, [" It poured.", " It hailed."], stand=True)
    data = file.read_bytes()
    file.write_bytes(data[: data.rindex(b'["end"')])
    with Story.open(file) as story:
        assert story.damage and story.read_only is not None
        assert " It poured." in [node.text for node in story]


def test_a_story_of_a_later_version_is_left_alone(file: Path) -> None:
    data = file.read_bytes()
    file.write_bytes(before := journal.line({"srbwriter": journal.VERSION + 1}) + data.partition(b"\n")[2])
    with pytest.raises(NotAStory, match="newer srbwriter"):
        Story.open(file)
    assert file.read_bytes() == before


def test_a_file_that_mostly_holds_what_was_replaced_is_written_anew(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SPARE", 2**16)
    with Story.open(file) as story:
        story.append(" It poured." * 2000)
        for number in range(20):
            story.replace(Edit(number, number, "x"))
            story.end_typing()
            story.flush()
        size = file.stat().st_size
        until(lambda: file.stat().st_size < size / 2)
        story.append("!")
        assert not story.replaced
    assert file.stat().st_size < size / 5
    assert text_in(file).startswith("x" * 20) and text_in(file).endswith("!")


def test_a_copy_from_before_the_file_was_written_anew_is_written_behind(file: Path) -> None:
    with Story.open(file) as story:
        story.append(" It poured.")
        story.flush()
        head, rows = file.read_bytes().split(b"\n", 1)
        before = journal.line(["value", "x-old", "old" * 1000]), journal.line(["end", "0123", {}])
        file.write_bytes(b"".join([head, b"\n", *before, rows]))  # it ends as the file does, and is longer
        story.append("!")
        story.flush()
        assert not story.replaced
    assert text_in(file) == "It rained. It poured.!"


def test_rows_as_versions_before_the_release_wrote_them_are_read(file: Path) -> None:
    """Tags were one text, and actions had other fields: these are not undone any more."""
    node = [2, 1, 0, 0, "writer", "It poured.", None, "", {}, None, "", False, True, "", "", "a\nb"]
    with file.open("ab") as rows:
        rows.write(journal.line(["node", 2, node]))
        rows.write(journal.line(["action", 1, [1, "edit", 1, 0.0, 1, 2, 2, 3, [[2, "made", 1, 0]]]]))
        rows.write(journal.line(["end", "0123", {}]))
    with Story.open(file) as story:
        assert story.read_only is None and story.text(story.current) == "It poured."
        assert story.node(2).tags == ("a", "b") and story.undo() is None
