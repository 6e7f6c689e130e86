"""Damaged files: what is left is read, what is lost is told, the original is left alone."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from srbwriter.story import Blocked, DamagedStory, NotSaved, ReadOnlyStory, Story
from srbwriter.story.check import check
from tests.story.branches import WORDS

PAGE = 4096


def flip(path: Path, what: bytes, bit: int, which: int = 0) -> None:
    """Turn one bit of the first byte of ``what``, at the place ``which`` of those where it stands."""
    data = bytearray(path.read_bytes())
    at = -1
    for _ in range(which + 1):
        at = data.index(what, at + 1)
    data[at] ^= bit
    path.write_bytes(data)


def unsearched(path: Path) -> Path:
    """Take the text out of the search index, so that there is one copy of it."""
    db = sqlite3.connect(path)
    db.execute("DELETE FROM search")
    db.execute("INSERT OR IGNORE INTO unindexed SELECT id FROM body")
    db.commit()
    db.execute("VACUUM")
    db.close()
    return path


def files(path: Path) -> dict[str, bytes]:
    """What lies in the folder, but for what SQLite shares between processes."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".srbw-shm"}


def damage(path: Path, table: str, part: float) -> None:
    """Overwrite one leaf page of ``table``, chosen by ``part`` of the way through the file."""
    db = sqlite3.connect(path)
    rows = db.execute("SELECT id, text FROM body ORDER BY id").fetchall()
    db.close()
    data = bytearray(path.read_bytes())
    if table == "body":
        needle = rows[int(len(rows) * part)][1][:200].encode()
        page = data.index(needle) // 4096
    else:
        page = int(len(data) / 4096 * part)
    data[page * 4096 : page * 4096 + 4096] = b"\xa5" * 4096
    path.write_bytes(data)


def test_a_damaged_text_page_costs_only_what_stood_on_it(written: Path) -> None:
    damage(written, "body", 0.5)
    before = written.read_bytes()
    with Story.open(written) as story:
        assert story.read_only is not None
        assert story.read_only.reason is Blocked.DAMAGED
        found = story.damage
        assert found is not None
        assert found.read == 61
        text = story.text(story.current)
        for number in range(60):
            node = number + 2
            assert (f"<{number}>" in text) == (node not in found.missing_text)
        assert len(found.missing_text) < 10
        assert str(found) in story.read_only.message
        assert len(story.search("stormy", limit=99)) == 60 - len(found.missing_text)
        with pytest.raises(ReadOnlyStory):
            story.append("x")
    assert written.read_bytes() == before


@pytest.mark.parametrize("part", [0.02, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.97])
def test_wherever_the_damage_is_the_rest_is_read_and_the_loss_is_told(written: Path, part: float) -> None:
    damage(written, "any", part)
    before = written.read_bytes()
    with Story.open(written) as story:
        found = story.damage
        assert story.read_only is not None
        if found is None:  # a free page: nothing stood on it
            assert story.text(story.current).count("<") == 60
            return
        there = {node for node in range(2, 62) if node in story._document.tree and story.node(node).text}
        lost = {*found.missing_nodes, *found.missing_text}
        assert there | lost == set(range(2, 62))
        for node in there - lost:
            assert story.node(node).text == f"<{node - 2}> {WORDS}"
    assert written.read_bytes() == before


def test_a_story_without_its_header_is_read(written: Path) -> None:
    data = bytearray(written.read_bytes())
    data[:100] = bytes(100)
    written.write_bytes(data)
    with Story.open(written) as story:
        assert story.damage is not None
        assert all(f"<{number}>" in story.text(story.current) for number in range(60))
    assert written.read_bytes() == bytes(data)


def test_a_story_that_was_cut_short_is_read_as_far_as_it_goes(written: Path) -> None:
    data = written.read_bytes()
    written.write_bytes(data[: len(data) // 2 // 4096 * 4096])
    with Story.open(written) as story:
        found = story.damage
        assert found is not None
        assert found.read > 5
        assert found.missing_nodes or found.missing_text


def test_check_names_what_is_wrong(written: Path) -> None:
    assert check(written).sound
    db = sqlite3.connect(written)
    db.execute("UPDATE node SET chars = 3 WHERE id = 7")
    db.execute("DELETE FROM body WHERE id = 8")
    db.commit()
    db.close()
    report = check(written)
    assert not report.sound
    assert report.damage is not None
    assert report.damage.doubtful == (7, 8)
    assert "nodes 7, 8" in report.damage.problem


# -- one bit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bit", [0x80, 0x01], ids=["no character", "another letter"])
def test_one_bit_of_a_text_costs_nothing_but_certainty(written: Path, bit: int) -> None:
    flip(unsearched(written), b"<30>", bit)
    before = files(written)
    report = check(written)
    assert report.damage is not None
    assert report.damage.doubtful == (32,)
    assert "nodes 32 may not be as they were written" in str(report.damage)
    with Story.open(written) as story:
        assert story.damage == report.damage
        assert story.read_only is not None and story.read_only.reason is Blocked.DAMAGED
        assert story.node(32).text[1:] == f"<30> {WORDS}"[1:]
        for node in {*range(2, 62)} - {32}:
            assert story.node(node).text == f"<{node - 2}> {WORDS}"
        made = story.recover(written.with_name("again.srbw"), "Again")
    assert check(made).sound
    made.unlink()
    assert files(written) == before


@pytest.mark.parametrize("bit", [0x80, 0x01], ids=["no character", "another letter"])
def test_one_bit_of_a_text_is_got_over_with_the_copy_in_the_search_index(written: Path, bit: int) -> None:
    flip(written, b"<30>", bit)
    if check(written).damage is None:  # that was the copy
        flip(written, b"<30>", bit, which=1)
    with Story.open(written) as story:
        assert story.damage is not None
        assert story.damage.doubtful == (32,)
        assert story.node(32).text == f"<30> {WORDS}"


# -- a log beside it -------------------------------------------------------------------------------------


def killed(path: Path, folder: str = "killed") -> Path:
    """What lies there if the writer of the story at ``path`` is killed now."""
    shutil.copytree(path.parent, path.parent.with_name(folder), ignore=shutil.ignore_patterns("*-shm"))
    return path.parent.with_name(folder) / path.name


@pytest.fixture
def interrupted(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A story whose writer was killed: its last words are in the log alone."""
    place = tmp_path_factory.mktemp("place") / "home"
    place.mkdir()
    path = Path(shutil.copy(unsearched(written), place / "story.srbw"))
    with Story.open(path) as story:
        for number in range(3):
            story.edit(61, f"Changed {number} times. " * 20)
            story.end_typing()
        story.add(61, ["The last words."])
        return killed(path)


def test_the_words_of_a_killed_writer_are_taken_from_the_log(interrupted: Path) -> None:
    before = files(interrupted)
    assert check(interrupted).sound
    assert files(interrupted) == before
    with Story.open(interrupted) as story:
        assert story.read_only is None
        assert story.node(62).text == "The last words."
        assert story.node(61).text.startswith("Changed 2")
    assert [*files(interrupted)] == [interrupted.name]


def test_a_damaged_file_with_a_log_stays_as_it_is_and_so_does_the_log(interrupted: Path) -> None:
    flip(interrupted, b"<30>", 0x80)
    before = files(interrupted)
    for _ in range(2):
        with Story.open(interrupted) as story:
            assert story.damage is not None
            assert story.damage.doubtful == (32,)
            assert story.node(62).text == "The last words."
        check(interrupted)
        Story.open(interrupted, readonly=True).close()
    assert files(interrupted) == before


@pytest.mark.parametrize("kept", [0, 32, 5000, -1])
def test_a_log_that_is_lost_or_cut_short_is_missed(interrupted: Path, kept: int) -> None:
    log = Path(f"{interrupted}-wal")
    data = log.read_bytes()
    log.write_bytes(data[:kept])
    if not kept:
        log.unlink()
    before = files(interrupted)
    with Story.open(interrupted) as story:
        found = story.damage
        assert found is not None
        assert "the log that lay beside" in str(found)
        assert {61, 62} <= {*found.missing_nodes, *found.doubtful}
        assert 30 not in found.doubtful
        assert story.node(30).text == f"<28> {WORDS}"
    assert check(interrupted).damage == found
    assert files(interrupted) == before


def test_damage_met_in_an_open_story_leaves_its_file_alone(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("srbwriter.story.open.SMALL_BYTES", 0)
    flip(unsearched(written), b"<30>", 0x01)
    before = written.read_bytes()
    with Story.open(written) as story:
        with pytest.raises(DamagedStory):
            story.node(32)
        story.add(61, ["Words after that."])  # nothing is wrong with the place where they go
        assert written.read_bytes() == before
    assert written.read_bytes() == before
    with Story.open(written) as story:
        assert story.damage is not None
        assert story.damage.doubtful == (32,)
        assert story.node(62).text == "Words after that."
    assert written.read_bytes() == before


# -- what is left ----------------------------------------------------------------------------------------


def test_a_text_that_breaks_off_is_shorter_and_named(path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(9000))
    with Story.create(path) as story:
        node = story.add(1, [words])[0]
    data = unsearched(path).read_bytes()
    cut = data.rindex(b"word8000") - 1000  # inside a page
    assert cut % PAGE
    path.write_bytes(data[:cut])
    with Story.open(path) as story:
        found = story.damage
        assert found is not None
        text = story.node(node).text
        assert 1000 < len(text) < len(words)
        assert words.startswith(text)
        assert found.missing_text == (node,)
        assert found.missing_characters == len(words) - len(text)


def without_first_page(path: Path) -> Path:
    data = bytearray(path.read_bytes())
    data[:PAGE] = bytes(PAGE)
    path.write_bytes(data)
    return path


def test_a_first_page_that_is_gone_costs_nothing(written: Path) -> None:
    with Story.open(without_first_page(written)) as story:
        assert story.damage is not None
        assert not story.damage.doubtful and not story.damage.missing_nodes
        assert (story.title, story.text(61).count("<")) == ("Sixty", 60)


def test_words_by_day_are_kept_and_the_undo_history_is_not(written: Path) -> None:
    with Story.open(written) as story:
        story.append("Ten words. " * 5)
        days = story.days()
        assert days
    flip(unsearched(written), b"<30>", 0x01)
    with Story.open(written) as story:
        assert story.damage is not None
        assert "undo history" in str(story.damage)
        assert story.days() == days


def test_a_disk_that_gives_parts_of_the_file_back_no_more_costs_those(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = written.read_bytes()
    flip(unsearched(written), b"<30>", 0x01)
    bad = data.index(b"<40>") // PAGE * PAGE
    read = os.pread

    def failing(descriptor: int, size: int, start: int) -> bytes:
        if start <= bad < start + size and os.fstat(descriptor).st_size > PAGE:
            raise OSError(errno.EIO, "Input/output error")
        return read(descriptor, size, start)

    monkeypatch.setattr("srbwriter.story.connection.os.pread", failing)
    with Story.open(written) as story:
        assert story.damage is not None
        assert 0 < len({*story.damage.doubtful, *story.damage.missing_text}) < 12
        assert story.text(61).count(">") > 45


def test_a_full_disk_that_takes_no_copy_is_named(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flip(written, b"<30>", 0x01)
    flip(written, b"<31>", 0x01)

    def full(descriptor: int, size: int, start: int) -> bytes:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("srbwriter.story.connection.os.pread", full)
    with pytest.raises(NotSaved, match="free some space"):
        Story.open(written)
