"""The library: a folder of stories, those opened recently, and copies of stories.

A copy is a whole story file: one a day, rolling, and snapshots with a name. It appears complete or not at
all, and never overwrites a file. Its name holds the time at which it was made, because the times of a file
change when it is moved. Callers decide when to make a copy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from srbwriter import paths
from srbwriter.story import disk
from srbwriter.story.disk import LONGEST_NAME, SUFFIX, saving
from srbwriter.story.model import DamagedStory, NotAStory, StoryError, TooNew
from srbwriter.story.tree import Rows

MOST_RECENT = 30
KEEP_DAYS = 14
DELETED = "deleted"
"""The name of the copy that a deleted story becomes. Named copies are never removed."""

_OWNER = ".story"
_NAME = re.compile(r"(?:day|named) (\d{4}-\d\d-\d\d)(?: (\d\d\.\d\d\.\d\d) (.+))?")


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
        last = disk.last_batch(path)
        shown, problem = last.summary, problem if last.damage is not None else ""
    except OSError as error:
        problem = f"cannot be read: {disk.in_brief(error)}"
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


# -- copies ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy; ``name`` is empty for a daily one. ``at`` is in Unix seconds; midnight for a daily one."""

    path: Path
    name: str
    at: float
    size: int

    @property
    def title(self) -> str:
        return title_of(self.path)


def daily(source: Path, folder: Path, keep: int = KEEP_DAYS, now: float | None = None) -> Path | None:
    """Make today's copy unless it exists, and return it; remove the oldest daily ones beyond ``keep``.

    Raises NotSaved or DamagedStory.
    """
    target = folder / f"{time.strftime('day %Y-%m-%d', time.localtime(now))}{SUFFIX}"
    made = None if target.exists() else copy_story(source, target)
    _claim(folder, source)
    others = [copy.path for copy in backups(folder) if not copy.name and copy.path != target]
    for old in others[keep - 1 :]:
        old.unlink(missing_ok=True)
    return made


def snapshot(source: Path, folder: Path, name: str, now: float | None = None) -> Path:
    """Make a named copy, which stays until it is deleted by hand. Raises NotSaved or DamagedStory."""
    slug = paths.shortened(re.sub(r"[^\w .,()-]+", "_", name).strip()[:80], LONGEST_NAME) or "snapshot"
    stem = time.strftime("named %Y-%m-%d %H.%M.%S ", time.localtime(now)) + slug
    target = copy_story(source, numbered(folder, stem))
    _claim(folder, source)
    return target


def discard(source: Path, folder: Path) -> Path:
    """Move a closed story into ``folder``, as a copy called DELETED.

    Raises NotSaved if it is open or there is no room, or DamagedStory; then the file stays.
    """
    with saving(source), closing(disk.FileLock(source.resolve())):
        copy = snapshot(source, folder, DELETED)
        disk.remove(source)
    return copy


def restore(copy: Backup, folder: Path) -> Path:
    """Make a story of a copy, and return its file.

    A deleted story comes back to its place, and leaves the copies. Any other copy becomes a story in
    ``folder`` whose title says when it was made, so that two stories never have one title. Raises StoryError.
    """
    original = _owner(copy.path.parent) if copy.name == DELETED else None
    if original is not None and not original.exists():
        copy_story(copy.path, original)
        copy.path.unlink()
        return original
    title = f"{copy.title} {time.strftime('%Y-%m-%d %H.%M', time.localtime(copy.at))}"
    return copy_story(copy.path, free_path(folder, title), title)


def backups(folder: Path) -> list[Backup]:
    """Return all copies in ``folder``, newest first, by the dates in their names."""
    found: list[Backup] = []
    for path in folder.glob(f"*{SUFFIX}"):
        if match := _NAME.fullmatch(path.stem):
            at = time.mktime(time.strptime(f"{match[1]} {match[2] or '00.00.00'}", "%Y-%m-%d %H.%M.%S"))
            found.append(Backup(path, match[3] or "", at, path.stat().st_size))
    return sorted(found, key=lambda copy: (copy.at, copy.path.name), reverse=True)


def newest_good(folder: Path) -> Backup | None:
    """Return the newest copy in ``folder`` that can be read whole."""
    for copy in backups(folder):
        with suppress(StoryError, OSError):
            if disk.read(copy.path).damage is None:
                return copy
    return None


def own_folder(uuid: object, file: Path, folder: Path) -> Path:
    """Return the subfolder of ``folder`` with the copies of the story in ``file``, also after the file moved.

    ``uuid`` is the story's own; severe damage loses it. A file and a duplicate of it share the uuid, so each
    subfolder names its file.
    """
    begin = str(uuid or "")
    owners = {below: _owner(below) for below in sorted(folder.glob(f"{begin}*"))}
    ours = [below for below, owner in owners.items() if owner and disk.state_of(owner) == disk.state_of(file)]
    left = [below for below, owner in owners.items() if begin and not (owner and owner.exists())]
    name = begin or file.stem
    return [*ours, *left, folder / (f"{name} {len(owners) + 1}" if begin and owners else name)][0]


def _claim(folder: Path, file: Path) -> None:
    """Record in ``folder`` that its copies are of the story in ``file``."""
    if _owner(folder) != file:
        with suppress(OSError):  # any story may then claim the folder
            paths.write_atomic(folder / _OWNER, os.fsencode(file))


def _owner(folder: Path) -> Path | None:
    """Return the story file that ``folder`` belongs to; None if it is not recorded."""
    try:
        return Path(os.fsdecode((folder / _OWNER).read_bytes()))
    except OSError:
        return None


def copy_story(source: Path, target: Path, title: str = "") -> Path:
    """Copy a story whole to the new file ``target``, also while it is being written to.

    With a ``title`` it becomes a story of its own. A file of an older version stays what it is without one.
    Raises NotAStory if ``target`` exists, NotSaved or DamagedStory.
    """
    with saving(target):
        file = disk.read(source)
        if file.damage is not None:
            raise DamagedStory(source, file.damage.problem)
        paths.make_folder(target.parent)
        if file.token or title:
            new = {("value", "title"): title, ("value", "uuid"): str(uuid4())} if title else {}
            disk.write_story(target, file.rows | new)
        else:
            for suffix in ("", "-wal", "-journal"):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{source}{suffix}", f"{target}{suffix}")
    return target
