"""Story files: list them, create one, or copy one as a new story.

A story that is open elsewhere can be copied at any time.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from srbwriter.story import library
from srbwriter.story.backup import Backup, copy_story
from srbwriter.story.model import NotAStory
from srbwriter.story.story import Story


def known(folder: Path, recent: library.RecentStories) -> list[library.StoryInfo]:
    """Return the stories in ``folder`` and those opened recently elsewhere, last changed first."""
    found = {story.path.resolve(): story for story in library.stories(folder)}
    for path in (entry.path for entry in recent.all() if entry.path not in found):
        with contextlib.suppress(NotAStory):
            found[path] = library.info(path)
    return sorted(found.values(), key=lambda story: (-story.modified, story.title))


def begin(title: str, folder: Path) -> Path:
    """Create an empty story called ``title`` in a new file of ``folder``. Raises StoryError."""
    file = library.free_path(folder, title)
    Story.create(file, title).close()
    return file


def copy_as(source: Path, target: Path, title: str) -> Path:
    """Copy a story file as a new story called ``title``. Raises StoryError."""
    with Story.open(copy_story(source, target)) as story:
        story.set_apart(title)
    return target


def undelete(copy: Backup, target: Path) -> Path:
    """Restore a deleted story to the file ``target``, and remove its backup. Raises StoryError."""
    copy_story(copy.path, target)
    copy.path.unlink()
    return target


def moment_title(copy: Backup) -> str:
    """Return the title for a story restored from ``copy``: its own, with the time of the copy."""
    return f"{title_of(copy)} {time.strftime('%Y-%m-%d %H.%M', time.localtime(copy.at))}"


def title_of(copy: Backup) -> str:
    """Return the title of the story in a copy; ``?`` if it cannot be read."""
    try:
        return library.info(copy.path).title
    except NotAStory:
        return "?"
