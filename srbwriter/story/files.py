"""Stories as files: those there are, a new one, and a copy as a story of its own.

What is open elsewhere may be copied at any time. Knows folders it is given, and no settings.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

from srbwriter.story import library
from srbwriter.story.backup import Backup, restore
from srbwriter.story.model import NotAStory
from srbwriter.story.story import Story


def known(folder: Path, recent: library.RecentStories) -> list[library.StoryInfo]:
    """The stories in ``folder`` and those opened lately elsewhere, last changed first."""
    found = {story.path.resolve(): story for story in library.stories(folder)}
    for path in (entry.path for entry in recent.all() if entry.path not in found):
        with contextlib.suppress(NotAStory):
            found[path] = library.info(path)
    return sorted(found.values(), key=lambda story: (-story.modified, story.title))


def begin(title: str, folder: Path) -> Path:
    """An empty story called ``title``, in a file of ``folder`` with a name of its own. Raises StoryError."""
    file = library.free_path(folder, title)
    Story.create(file, title).close()
    return file


def copy_as(source: Path, target: Path, title: str) -> Path:
    """A copy of a story file as another story, called ``title``. Raises StoryError."""
    with Story.open(restore(source, target)) as story:
        story.set_apart(title)
    return target


def undelete(copy: Backup, target: Path) -> Path:
    """A deleted story as it was, in the file ``target``; it is no copy any more. Raises StoryError."""
    restore(copy.path, target)
    copy.path.unlink()
    return target


def moment_title(copy: Backup) -> str:
    """What a story made of ``copy`` is called: its title, and when the copy was made."""
    return f"{title_of(copy)} {time.strftime('%Y-%m-%d %H.%M', time.localtime(copy.at))}"


def title_of(copy: Backup) -> str:
    """The title that the story had; ``?`` if the copy does not say."""
    try:
        return library.info(copy.path).title
    except NotAStory:
        return "?"
