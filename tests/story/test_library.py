"""Copies, the story folder, recent stories, and what counts as progress."""

from __future__ import annotations

from pathlib import Path

import pytest

from srbwriter import paths
from srbwriter.story import NotSaved, Story, library
from srbwriter.story.journal import move
from srbwriter.story.library import free_path, info, stories
from srbwriter.story.model import Progress
from srbwriter.story.tree import IDLE_SECONDS
from tests.story.branches import generated

DAY = 86_400.0


# -- copies --------------------------------------------------------------------------------------------


def test_old_daily_copies_go_and_named_ones_stay(story: Story, tmp_path: Path) -> None:
    folder = tmp_path / "b"
    story.append("x")
    for day in range(6):
        library.daily(story.file, folder, keep=3, now=day * DAY + DAY / 2)
        library.snapshot(story.file, folder, f"draft/{day}", now=day * DAY + DAY / 2)
    found = library.backups(folder)
    assert sorted(b.name for b in found) == ["", "", "", *(f"draft_{day}" for day in range(6))]
    daily = sorted(b.path.name for b in found if not b.name)
    assert daily[-1].startswith("day 1970-01-06")


def test_two_snapshots_of_a_second_have_two_names(story: Story, tmp_path: Path) -> None:
    story.append("x")
    taken = {library.snapshot(story.file, tmp_path, "twice", now=DAY) for _ in range(3)}
    assert len(taken) == len(library.backups(tmp_path)) == 3


def snapshot(story: Story, folder: Path, name: str) -> Path:
    story.flush()
    return library.snapshot(story.file, story.backup_folder(folder), name)


def test_a_snapshot_is_never_overwritten_and_restores_beside(story: Story, tmp_path: Path) -> None:
    story.append("first")
    taken = snapshot(story, tmp_path / "b", "before the storm")
    with pytest.raises(NotSaved, match="already there"):
        library.copy_story(story.file, taken)
    story.append(" second")
    restored = library.copy_story(taken, tmp_path / "old.srbw")
    with Story.open(restored) as old:
        assert old.text(old.current) == "first"
    with pytest.raises(NotSaved, match="already there"):
        library.copy_story(taken, story.file)
    assert library.backups(story.backup_folder(tmp_path / "b"))[0].name == "before the storm"


def test_copies_are_found_again_after_the_file_moved_and_where_its_mark_is_lost(
    story: Story, tmp_path: Path
) -> None:
    story.append("first")
    story.flush()
    kept, other = tmp_path / "kept", tmp_path / "other.srbw"
    mine = story.backup_folder(kept)
    library.daily(story.file, mine)
    with Story.create(other, "Other") as second:
        library.daily(other, second.backup_folder(kept))
    story.close()
    moved = story.file.rename(tmp_path / "moved.srbw")
    with Story.open(moved) as again:
        assert again.backup_folder(kept) == mine and len(library.backups(mine)) == 1
    moved.write_bytes(b"x" * 300 + moved.read_bytes()[300:])
    with Story.open(moved) as damaged:
        assert damaged.damage and damaged.backup_folder(kept) == mine


def test_a_deleted_story_comes_back_to_its_place(story: Story, tmp_path: Path) -> None:
    story.append("first")
    folder = story.backup_folder(tmp_path / "kept")
    with pytest.raises(NotSaved, match="open in another window"):
        library.discard(story.file, folder)
    story.close()
    library.discard(story.file, folder)
    assert not story.file.exists()
    [copy] = library.backups(folder)
    assert library.restore(copy, tmp_path) == story.file and not library.backups(folder)
    with Story.open(story.file) as back:
        assert back.text(back.current) == "first"
    copy = library.discard(story.file, folder)
    story.file.write_text("in its place")
    made = library.restore(library.backups(folder)[0], tmp_path)
    assert made != story.file and story.file.read_text() == "in its place" and copy.exists()


# -- the folder ----------------------------------------------------------------------------------------


def test_the_folder_lists_its_stories(tmp_path: Path) -> None:
    for title, text in (("One", "a b c"), ("Two", "d e")):
        with Story.create(free_path(tmp_path, title), title) as made:
            made.append(text)
    (tmp_path / "none.srbw").write_text("x" * 100)
    broken = tmp_path / "broken.srbw"
    broken.write_bytes((tmp_path / "One.srbw").read_bytes()[:150] + b"\xa5" * 40_000)
    listed = {story.title: story for story in stories(tmp_path)}
    assert listed.keys() == {"One", "Two", "broken", "none"}
    assert (listed["One"].words, listed["One"].problem) == (3, "")
    assert listed["broken"].problem == "is damaged" and "not a story" in listed["none"].problem
    assert "no such file" in info(tmp_path / "nothing.srbw").problem


def test_names_of_new_stories_are_readable_and_free(tmp_path: Path) -> None:
    assert free_path(tmp_path, "The Sea, the Sea!").name == "The-Sea-the-Sea.srbw"
    free_path(tmp_path, "x").touch()
    assert free_path(tmp_path, "x").name == "x-2.srbw"
    assert free_path(tmp_path, "../..").parent == tmp_path


def test_a_closed_story_can_be_moved(tmp_path: Path) -> None:
    source, target = tmp_path / "a.srbw", tmp_path / "b.srbw"
    with Story.create(source) as made:
        made.append("words")
        with pytest.raises(NotSaved, match="open in"):
            move(source, target)
    target.touch()
    with pytest.raises(NotSaved, match="already there"):
        move(source, target)
    target.unlink()
    move(source, target)
    assert not source.exists()
    with Story.open(target) as moved:
        assert moved.text(moved.current) == "words"
    with pytest.raises(NotSaved, match="no such file"):
        move(source, tmp_path / "c.srbw")


def test_recent_stories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "MOST_RECENT", 2)
    assert library.recent_stories() == []
    files = [tmp_path / f"{name}.srbw" for name in "abc"]
    for path in files:
        path.touch()
        library.remember(path)
    library.remember(files[1])
    assert library.recent_stories() == [files[1], files[2]]
    files[1].unlink()
    assert library.recent_stories() == [files[2]]
    paths.recent_file().write_text("{]")
    assert library.recent_stories() == []


# -- progress ------------------------------------------------------------------------------------------


def test_words_by_day(story: Story) -> None:
    story.append("one two three")
    [branch] = generated(story, story.current, " four five")
    story.pick(branch)
    story.pick(branch)  # a second time counts for nothing
    assert story.words(branch) == 5
    assert story.today().words == 5
    for _ in range(3):
        story.undo()
    assert story.today().words == 0
    assert list(story.days()) == [max(story.days())]


def test_idle_time_is_not_writing(story: Story, tmp_path: Path) -> None:
    now = [1000.0]
    story.clock, story._last_change = lambda: now[0], 1000.0
    for seconds in (10, IDLE_SECONDS, IDLE_SECONDS + 1, 20):
        now[0] += seconds
        story.end_typing()
        story.append("word ")
    assert list(story.days().values()) == [Progress(4, 10 + IDLE_SECONDS + 20)]
