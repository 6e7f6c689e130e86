"""Opening a story keeps a copy of it, once a day."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

from srbwriter import paths
from srbwriter.session.open import open_story
from srbwriter.story import Story
from srbwriter.story.library import Backup, backups


def opened(path: Path) -> list[Backup]:
    """Open and close the story, and return its copies."""
    with open_story(path) as story:
        folder = story.backup_folder(paths.backup_dir())
    for thread in threading.enumerate():
        if thread.name == "srbwriter-backup":
            thread.join()
    return backups(folder)


def test_a_story_is_copied_once_a_day(tmp_path: Path) -> None:
    path = tmp_path / "s.srbw"
    assert opened(path) == [], "there is nothing to copy yet"
    with Story.open(path) as story:
        story.append("It rained.")
    (copy,) = opened(path)
    assert copy.name == ""
    with Story.open(copy.path, readonly=True) as story:
        assert story.text(story.current) == "It rained."
    assert opened(path) == [copy]


def test_an_old_story_is_copied_before_it_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "old.srbw"
    path.write_bytes(gzip.decompress((Path(__file__).parents[1] / "story/old/typed.srbw.gz").read_bytes()))
    daily, before = sorted(opened(path), key=lambda copy: copy.name)
    assert (daily.name, before.name) == ("", "before the upgrade from version 7")


def test_a_folder_for_copies_that_cannot_be_made_stops_nobody(tmp_path: Path) -> None:
    paths.state_dir().mkdir(parents=True)
    paths.backup_dir().write_text("in the way")
    path = tmp_path / "s.srbw"
    with Story.create(path) as story:
        story.append("It rained.")
    assert opened(path) == []
    with Story.open(path, readonly=True) as story:
        assert story.text(story.current) == "It rained."
