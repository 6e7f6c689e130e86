"""A folder of stories, and the list of recently opened stories.

Story files are read without locking or changing them.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story.disk import LONGEST_NAME, in_brief
from srbwriter.story.model import DamagedStory, JsonObject, NotAStory, TooNew
from srbwriter.story.store import SUFFIX, VERSION, last_batch, summary_of
from srbwriter.story.tree import Rows
from srbwriter.story.upgrade import read_old

MOST_RECENT = 30


@dataclass(frozen=True, slots=True)
class StoryInfo:
    """A story as shown in a list; ``words`` counts the current path."""

    path: Path
    title: str
    words: int
    nodes: int
    modified: float
    size: int
    problem: str = ""


def is_story(path: Path) -> bool:
    """Whether the file is a story, sound or not."""
    try:
        return info(path).size > 0
    except NotAStory:
        return False


def info(path: Path) -> StoryInfo:
    """Read what a list shows of a story file. Raises NotAStory; ``problem`` describes damage."""
    try:
        stat = path.stat()
    except OSError as error:
        raise NotAStory(path, error.strerror or str(error)) from error
    shown: JsonObject = {}
    problem = ""
    try:
        last = last_batch(path)
        shown = last.summary if last.version == VERSION else summary_of(read_old(path).rows)
        problem = "is damaged" if last.damage is not None else ""
    except OSError as error:
        problem = f"cannot be read: {in_brief(error)}"
    except TooNew as error:
        problem = error.problem
    except DamagedStory:
        problem = "is damaged"
    title, words, nodes = shown.get("title") or path.stem, shown.get("words", 0), shown.get("nodes", 0)
    return StoryInfo(path, title, words, nodes, stat.st_mtime, stat.st_size, problem)


def stories(folder: Path) -> list[StoryInfo]:
    """Return the stories in ``folder``, and those opened recently elsewhere, last changed first."""
    files = [*folder.glob(f"*{SUFFIX}")] if folder.is_dir() else []
    found: dict[Path, StoryInfo] = {}
    for path in (*files, *recent_stories()):
        if path.resolve() not in found:
            with contextlib.suppress(NotAStory):
                found[path.resolve()] = info(path)
    return sorted(found.values(), key=lambda story: (-story.modified, story.title))


def file_name(title: str) -> str:
    """Return a readable file name, without suffix, for a story called ``title``."""
    words = re.sub(r"[^\w\- ]+", "", title).strip().replace(" ", "-")[:80]
    return paths.shortened(words, LONGEST_NAME) or "story"


def numbered(folder: Path, stem: str, gap: str) -> Path:
    """Return an unused path in ``folder`` for a story; with a number if there is one of that name."""
    path, number = folder / f"{stem}{SUFFIX}", 2
    while path.exists():
        path, number = folder / f"{stem}{gap}{number}{SUFFIX}", number + 1
    return path


def free_path(folder: Path, title: str) -> Path:
    """Return an unused path in ``folder`` for a new story called ``title``."""
    return numbered(folder, file_name(title), "-")


def place_of_second(path: Path, rows: Rows) -> Path:
    """Return an unused path beside ``path`` for the writer's version of it, and name it so in ``rows``."""
    rows["value", "title"] = f"{rows.get(('value', 'title')) or path.stem} (your version)"
    return free_path(path.parent, f"{path.stem} your version")


def recent_stories() -> dict[Path, str]:
    """Return the files of recently opened stories with their titles, newest first."""
    return {path: title for path, title in _read_recent().items() if path.exists()}


def remember(path: Path, title: str) -> None:
    """Put a story first among the recent ones. Errors while writing the list are ignored."""
    path = paths.expanded(path).resolve()
    _write_recent({path: title} | {other: name for other, name in _read_recent().items() if other != path})


def forget(path: Path) -> None:
    """Take a story out of the recent ones."""
    gone = paths.expanded(path).resolve()
    _write_recent({other: name for other, name in _read_recent().items() if other != gone})


def _read_recent() -> dict[Path, str]:
    """An unreadable file counts as an empty list."""
    try:
        rows = json.loads(paths.recent_file().read_text("utf-8"))
        return {Path(row["path"]): str(row["title"]) for row in rows}
    except (OSError, ValueError, TypeError, KeyError):
        return {}


def _write_recent(known: dict[Path, str]) -> None:
    rows = [{"path": str(path), "title": title} for path, title in known.items()][:MOST_RECENT]
    with contextlib.suppress(OSError):
        paths.write_atomic(paths.recent_file(), json.dumps(rows, indent=1).encode())
