"""A folder of stories, and the list of recently opened stories.

Story files are read without locking or changing them.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story.disk import LONGEST_NAME, SUFFIX, in_brief, last_batch
from srbwriter.story.model import DamagedStory, NotAStory, TooNew
from srbwriter.story.tree import Rows

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


def info(path: Path) -> StoryInfo:
    """Read what a list shows of a story file. Raises NotAStory or OSError; ``problem`` is damage."""
    stat = path.stat()
    shown, problem = {}, "is damaged"
    try:
        last = last_batch(path)
        shown, problem = last.summary, problem if last.damage is not None else ""
    except OSError as error:
        problem = f"cannot be read: {in_brief(error)}"
    except TooNew as error:
        problem = error.problem
    except DamagedStory:
        pass
    title, words, nodes = shown.get("title") or path.stem, shown.get("words", 0), shown.get("nodes", 0)
    return StoryInfo(path, title, words, nodes, stat.st_mtime, stat.st_size, problem)


def title_of(path: Path) -> str:
    """Return the title of a story; the name of its file if it cannot be read."""
    try:
        return info(path).title
    except (NotAStory, OSError):
        return path.stem


def stories(folder: Path) -> list[StoryInfo]:
    """Return the stories in ``folder``, and those opened recently elsewhere, last changed first."""
    found: dict[Path, StoryInfo] = {}
    for path in (*folder.glob(f"*{SUFFIX}"), *recent_stories()):
        if path.resolve() not in found:
            with suppress(NotAStory, OSError):
                found[path.resolve()] = info(path)
    return sorted(found.values(), key=lambda story: (-story.modified, story.title))


def file_name(title: str) -> str:
    """Return a readable file name, without suffix, for a story called ``title``."""
    words = re.sub(r"[^\w\- ]+", "", title).strip().replace(" ", "-")[:80]
    return paths.shortened(words, LONGEST_NAME) or "story"


def numbered(folder: Path, stem: str) -> Path:
    """Return an unused path in ``folder`` for a story; with a number if there is one of that name."""
    path, number = folder / f"{stem}{SUFFIX}", 2
    while path.exists():
        path, number = folder / f"{stem}-{number}{SUFFIX}", number + 1
    return path


def free_path(folder: Path, title: str) -> Path:
    """Return an unused path in ``folder`` for a new story called ``title``."""
    return numbered(folder, file_name(title))


def place_of_second(path: Path, rows: Rows) -> Path:
    """Return an unused path beside ``path`` for the writer's version of it, and name it so in ``rows``."""
    rows["value", "title"] = f"{rows.get(('value', 'title')) or path.stem} (your version)"
    return free_path(path.parent, f"{path.stem} your version")


def recent_stories() -> list[Path]:
    """Return the files of recently opened stories, newest first."""
    try:
        rows = json.loads(paths.recent_file().read_text("utf-8"))
        return [path for row in rows if (path := Path(row["path"])).exists()]
    except (OSError, ValueError, TypeError, KeyError):
        return []


def remember(path: Path) -> None:
    """Put a story first among the recent ones. Errors while writing the list are ignored."""
    files = dict.fromkeys([paths.expanded(path).resolve(), *recent_stories()])
    rows = [{"path": str(file)} for file in files][:MOST_RECENT]
    with suppress(OSError):
        paths.write_atomic(paths.recent_file(), json.dumps(rows, indent=1).encode())
