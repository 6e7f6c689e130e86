"""The file: who may write, what a full disk costs, how an old and a damaged one are opened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import (
    ROOT,
    Blocked,
    NotAStory,
    NotSaved,
    ReadOnlyStory,
    Story,
    TooNew,
    checkpoint,
)
from srbwriter.story.backup import backups, restore
from srbwriter.story.check import check
from srbwriter.story.migrations import STEPS, VERSION, migrate
from srbwriter.story.store import Store
from tests.server.wire import wait_until
from tests.story.branches import WORDS, drafted
from tests.story.crash_child import old_story


def fill_the_disk(story: Story) -> None:
    db = story._document.store.db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count = {pages}")


def make_room(story: Story) -> None:
    story._document.store.db.execute("PRAGMA max_page_count = 1000000")


# -- making and opening ------------------------------------------------------------------------------


def test_a_new_story_is_a_marked_file_in_write_ahead_mode(path: Path) -> None:
    with Story.create(path, "Title") as story:
        assert (story.title, story.current, len(story), story.file) == ("Title", ROOT, 1, path)
        db = story._document.store.db
        assert db.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert db.execute("PRAGMA synchronous").fetchone()[0] == 2
        assert db.execute("PRAGMA application_id").fetchone()[0] == 0x73726277
        assert db.execute("PRAGMA user_version").fetchone()[0] == VERSION
    assert check(path).sound


def test_a_second_opener_gets_a_view_and_a_reason(written: Path) -> None:
    with Story.open(written) as first, Story.open(written) as second:
        assert first.read_only is None
        assert second.read_only is not None
        assert second.read_only.reason is Blocked.IN_USE
        assert str(os.getpid()) in second.read_only.message
        with pytest.raises(ReadOnlyStory, match="for reading only"):
            second.append("no")
        [node] = first.add(first.current, ["News."])
        assert second.children(second.current) == []
        second.refresh()
        assert second.children(second.current) == [node]
        assert second.text(node) == first.text(node)
    with Story.open(written) as third:
        assert third.read_only is None
    assert sorted(file.name for file in written.parent.iterdir()) == [written.name]


KILLED = """
import os, signal, sys
from srbwriter.story import Story
story = Story.open(sys.argv[1])
story.append("The last words.")
os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(path)]
    done = subprocess.run(command, check=False, capture_output=True, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_lock_ends_with_its_process(written: Path) -> None:
    killed(written)
    with Story.open(written) as story:
        assert story.read_only is None
        assert story.text(story.current).endswith("The last words.")
    assert sorted(file.name for file in written.parent.iterdir()) == [written.name]


def test_a_folder_of_the_program_that_cannot_be_written_keeps_nobody_from_writing(written: Path) -> None:
    paths.state_dir().parent.mkdir(parents=True)
    paths.state_dir().write_text("in the way")
    with Story.open(written) as story, Story.open(written) as second:
        assert story.read_only is None
        assert second.read_only is not None
        story.append("words")


def test_asked_for_reading_it_does_not_write(written: Path) -> None:
    before = written.read_bytes()
    with Story.open(written, readonly=True) as story:
        assert story.read_only is not None
        assert story.read_only.reason is Blocked.ASKED
        assert "<59>" in story.text(story.current)
        assert story.search("<7>")
        for verb in (story.undo, lambda: story.pick(2), lambda: story.begin_branches(ROOT, 1)):
            with pytest.raises(ReadOnlyStory):
                verb()
    assert written.read_bytes() == before


def database(*statements: str) -> bytes:
    """The bytes of a database in which these were executed."""
    with sqlite3.connect(":memory:") as db:
        for statement in statements:
            db.execute(statement)
        return db.serialize()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "does not exist — check the name"),
        (b"", "is empty — delete it to begin a story there, or restore a copy"),
        (b"Once upon a time\n" * 400, "is not a story — `srbwriter import` reads texts"),
        (database("CREATE TABLE node (id)"), "not a story"),
    ],
)
def test_other_files_are_refused_and_left_alone(path: Path, content: bytes | None, problem: str) -> None:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(NotAStory, match=problem) as caught:
        Story.open(path)
    assert str(path) in str(caught.value)
    assert content is None or path.read_bytes() == content


def test_a_story_of_a_later_version_is_left_alone(written: Path) -> None:
    db = sqlite3.connect(written)
    db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = written.read_bytes()
    with pytest.raises(TooNew, match="newer srbwriter"):
        Story.open(written)
    assert written.read_bytes() == before


# -- upgrades ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("readonly", [False, True])
def test_an_old_story_is_brought_up_to_date(path: Path, readonly: bool) -> None:
    old_story(path)
    before = path.read_bytes()
    with Story.open(path, readonly=readonly) as story:
        assert story.text(story.current).count("old59") == 40
        if not readonly:
            assert [hit.node for hit in story.search("old33")] == [33]
            story.append(" more")
    if readonly:
        assert path.read_bytes() == before


def test_an_upgrade_that_fails_changes_nothing(path: Path) -> None:
    old_story(path)

    def half(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE action (id)")
        db.execute("INSERT INTO nowhere VALUES (1)")

    db = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(sqlite3.OperationalError):
        migrate(db, [STEPS[0], half])
    assert db.execute("PRAGMA user_version").fetchone()[0] == 1
    db.close()
    with Story.open(path) as story:
        assert story.append("fine")


def test_the_copy_before_an_upgrade_is_made_whoever_opens_the_story_and_is_in_its_list(path: Path) -> None:
    old_story(path)
    with Story.open(path) as story:
        [copy] = backups(story.backup_folder(paths.backup_dir()))
    assert copy.name == "before the upgrade from version 1"
    with Story.open(restore(copy.path, path.with_name("restored.srbw")), readonly=True) as old:
        assert old.text(old.current).count("old59") == 40


def test_an_old_story_that_cannot_be_copied_is_not_changed(path: Path, tmp_path: Path) -> None:
    old_story(path)
    before = path.read_bytes()
    (tmp_path / "file").write_text("in the way")
    with Story.open(path, backups=tmp_path / "file") as story:
        assert story.read_only is not None
        assert story.read_only.reason is Blocked.NO_COPY
        assert "has to be copied first" in story.read_only.message
        assert story.text(story.current).count("old59") == 40
        with pytest.raises(ReadOnlyStory):
            story.append("no")
    assert path.read_bytes() == before
    with Story.open(path, backups=tmp_path / "room") as story:  # and nobody holds its lock
        assert story.read_only is None


def test_a_story_that_was_only_half_made_can_be_opened(path: Path) -> None:
    Store.create(path).close()
    with Story.open(path) as story:
        story.append("fine")
        assert story.title == path.stem
    assert check(path).sound


# -- full disks and closed folders ----------------------------------------------------------------------


def test_a_full_disk_takes_nothing_and_changes_nothing(written: Path) -> None:
    with Story.open(written) as story:
        here = story.current
        [branch] = story.begin_branches(here, 1, vocab="v")
        before = drafted(story)
        fill_the_disk(story)
        for verb in (
            lambda: story.append(WORDS * 9, here),
            lambda: story.edit(here, WORDS * 10),
            lambda: story.stream(branch, WORDS * 20, range(3)),
        ):
            with pytest.raises(NotSaved, match="nothing is lost") as caught:
                verb()
            assert caught.value.full
            assert drafted(story) == before
            assert branch in story.streaming
        make_room(story)
        story.stream(branch, WORDS * 20, range(3))
        story.stream(branch, "the end", [4])
        story.finish(branch, "length")
        node = story.append("!", here)
    with Story.open(written) as story:
        assert story.text(node).endswith("!")
        taken = story.node(branch)
        assert taken.text == WORDS * 20 + "the end"
        assert taken.spans[0].ids == (0, 1, 2, 4)
        assert taken.finish_reason == "length"
    assert check(written).sound


def test_a_file_that_was_taken_away_gets_no_words(written: Path) -> None:
    with Story.open(written) as story:
        away = written.rename(written.with_name("away"))
        with pytest.raises(NotSaved, match="moved or deleted"):
            story.append("lost in a file that nobody sees")
        away.rename(written)
        story.append("here again")
    with Story.open(written) as story:
        assert story.text(story.current).endswith("here again")


def test_a_disk_that_fails_altogether_changes_nothing(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither COMMIT nor ROLLBACK comes through."""
    with Story.open(written) as story:
        here = story.current
        [branch] = story.begin_branches(here, 1, vocab="v")
        before = story.to_draft()

        def fails() -> None:
            raise NotSaved(written, "disk I/O error", full=False)

        with monkeypatch.context() as disk:
            disk.setattr(story._document.store, "commit", fails)
            disk.setattr(story._document.store, "rollback", fails)
            for verb in (lambda: story.append("!", here), lambda: story.finish(branch, "length")):
                with pytest.raises(NotSaved, match="I/O"):
                    verb()
        assert story.to_draft() == before
        assert story.streaming == {branch: branch}
        story.finish(branch, "length")
        node = story.append("!", here)
    with Story.open(written) as story:
        assert story.node(node).text == "!"
    assert check(written).sound


def test_a_verb_that_fails_leaves_the_tree_as_it_was(written: Path) -> None:
    with Story.open(written) as story:
        order = list(story.reading_order())
        fill_the_disk(story)
        for _ in range(200):
            try:
                story.add(order[1], ["Words that fill a page. " * 200] * 8)
            except NotSaved:
                break
        else:
            pytest.fail("the disk never became full")
        seen = [story.node(node) for node in story.reading_order()]
        make_room(story)
    with Story.open(written) as again:
        assert [again.node(node) for node in again.reading_order()] == seen


CLOSED_FOLDER = """
import json, os, sys
from pathlib import Path
from srbwriter.story import NotSaved, ReadOnlyStory, Story
path = Path(sys.argv[1])
with Story.create(Path(sys.argv[2]) / "warm.srbw") as warm:
    warm.append("x")  # imports the last modules: the user to come may not be let in where they are installed
if os.getuid() == 0:  # root may write anywhere
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
seen = {}
with Story.open(path) as story:
    seen["reason"] = story.read_only.reason.value
    seen["text"] = story.text(story.current)
    try:
        story.append("x")
    except ReadOnlyStory as error:
        seen["append"] = str(error)
try:
    Story.create(path.with_name("new.srbw"))
except NotSaved as error:
    seen["create"] = str(error)
print(json.dumps(seen))
"""


@pytest.mark.parametrize("log_left_behind", [False, True])
def test_a_folder_that_cannot_be_written_is_read(
    written: Path, log_left_behind: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with tempfile.TemporaryDirectory() as top:  # tmp_path is closed to other users
        folder = Path(top, "folder")
        folder.mkdir()
        Path(top).chmod(0o755)
        with Story.open(written) as story:
            node = story.append("The last words.")
            expected = story.text(node)
            if log_left_behind:  # as after a crash: part of the story is only in the log
                for suffix in ("", "-wal"):
                    shutil.copy(f"{written}{suffix}", folder)
        if not log_left_behind:
            shutil.copy(written, folder)
        files = {file.name: file.read_bytes() for file in folder.iterdir()}
        for file in folder.iterdir():
            file.chmod(0o444)
        folder.chmod(0o555)
        try:
            warm = tmp_path_factory.mktemp("warm")
            command = [sys.executable, "-c", CLOSED_FOLDER, str(folder / written.name), str(warm)]
            cwd = Path(__file__).parents[2]
            done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
            assert done.returncode == 0, done.stderr
        finally:
            folder.chmod(0o755)
        seen = json.loads(done.stdout)
        assert seen["reason"] == "no_permission"
        assert seen["text"] == expected
        assert "may not be written" in seen["append"]
        new = f"{folder / 'new.srbw'}: no story can be made there"
        assert (
            seen["create"]
            == f"{new}, access is not permitted — change the permissions, or choose another place"
        )
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == files


def test_a_long_log_is_folded_beside_the_writer(written: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "LIMIT", 1 << 16)
    monkeypatch.setattr(checkpoint, "REST_SECONDS", 1000.0)
    log = Path(f"{written}-wal")
    with Story.open(written) as story:
        number = 0
        while log.stat().st_size <= 1 << 17:
            story.append(f" {number}")
            number += 1
        text = story.text(story.current)
        wait_until(lambda: log.stat().st_size == 0)  # long before a rest has lasted REST_SECONDS
    assert text.endswith(f" {number - 1}")
    assert not log.exists()
    with Story.open(written, readonly=True) as story:
        assert story.damage is None
        assert story.text(story.current) == text


def test_to_open_a_story_is_no_change(written: Path) -> None:
    before = written.stat().st_mtime_ns, written.read_bytes()
    with Story.open(written):
        pass
    assert (written.stat().st_mtime_ns, written.read_bytes()) == before
    with Story.open(written) as story:
        story.append(" more")
    assert written.stat().st_mtime_ns != before[0]
