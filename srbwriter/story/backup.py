"""Copies of a story: one a day, rolling, and snapshots with a name. Copies are whole story files.

A copy appears complete or not at all, and never overwrites a file. Its name holds the time at which it was
made, because the times of a file change when it is moved. Callers decide when to make a copy.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import time
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path

from srbwriter import paths
from srbwriter.story import library
from srbwriter.story.disk import inode_of, not_saved, remove
from srbwriter.story.journal import FileLock
from srbwriter.story.model import DamagedStory, NotAStory, NotSaved
from srbwriter.story.store import SUFFIX, new_token, write_whole

KEEP_DAYS = 14
DELETED = "deleted"
"""The name of the copy that a deleted story becomes. Named copies are never removed."""

_OWNER = ".story"
_DAY, _MOMENT = "%Y-%m-%d", "%Y-%m-%d %H.%M.%S"
_PART = re.compile(r"\.(\d+)\.part(-journal)?$")
_DAILY = re.compile(r"day (\d{4}-\d\d-\d\d)")
_NAMED = re.compile(r"named (\d{4}-\d\d-\d\d \d\d\.\d\d\.\d\d) (.+)")


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy; ``name`` is empty for a daily one. ``at`` is in Unix seconds; midnight for a daily one."""

    path: Path
    name: str
    at: float
    size: int


def daily(source: Path, folder: Path, keep: int = KEEP_DAYS, now: float | None = None) -> Path | None:
    """Make today's copy unless it exists, and return it; remove the oldest daily ones beyond ``keep``.

    Copies dated in the future were made before the clock was set back, and count as the oldest.

    Raises NotSaved or DamagedStory.
    """
    target = folder / f"day {time.strftime(_DAY, time.localtime(now))}{SUFFIX}"
    there = target.exists()
    if not there:
        _clear_parts(folder)
        _copy(source, target)
    claim(folder, source)
    if there:
        return None
    daily = [copy.path for copy in backups(folder) if not copy.name]  # the newest first
    today = daily.index(target)
    for old in [*daily[today:], *daily[:today]][max(keep, 1) :]:
        old.unlink(missing_ok=True)
    return target


def snapshot(source: Path, folder: Path, name: str, now: float | None = None) -> Path:
    """Make a named copy, which stays until it is deleted by hand. Raises NotSaved or DamagedStory."""
    moment = time.strftime(_MOMENT, time.localtime(now))
    slug = re.sub(r"[^\w .,()-]+", "_", name).strip() or "snapshot"
    slug = paths.shortened(slug[:80], library.LONGEST_NAME)
    target, number = folder / f"named {moment} {slug}{SUFFIX}", 2
    while target.exists():
        target, number = folder / f"named {moment} {slug} {number}{SUFFIX}", number + 1
    _copy(source, target)
    claim(folder, source)
    return target


def discard(source: Path, folder: Path) -> Path:
    """Move a closed story into ``folder``, as a copy called DELETED.

    Raises NotSaved if it is open or there is no room, or DamagedStory; then the file stays.
    """
    lock = FileLock.take(source.resolve())
    try:
        copy = snapshot(source, folder, DELETED)
        remove(source)
    finally:
        lock.release()
    return copy


def deleted_from(copy: Backup) -> Path | None:
    """Return the former path of the deleted story in ``copy``; None for other copies, or a path in use."""
    original = _owner(copy.path.parent) if copy.name == DELETED else None
    return original if original is not None and not original.exists() else None


def backups(folder: Path) -> list[Backup]:
    """Return all copies in ``folder``, newest first, by the dates in their names."""
    found: list[Backup] = []
    for path in folder.glob(f"*{SUFFIX}") if folder.is_dir() else ():
        daily, named = _DAILY.fullmatch(path.stem), _NAMED.fullmatch(path.stem)
        with contextlib.suppress(ValueError, OverflowError):  # an impossible date
            if daily:
                found.append(Backup(path, "", _seconds(daily[1], _DAY), path.stat().st_size))
            elif named:
                found.append(Backup(path, named[2], _seconds(named[1], _MOMENT), path.stat().st_size))
    return sorted(found, key=lambda copy: (copy.at, copy.path.name), reverse=True)


def _seconds(moment: str, form: str) -> float:
    return time.mktime(time.strptime(moment, form))


def own_folder(uuid: object, file: Path, folder: Path) -> Path:
    """Return the subfolder of ``folder`` with the copies of the story in ``file``, also after the file moved.

    ``uuid`` is the story's own. A file and a duplicate of it share the uuid, so each subfolder names its
    file: see :func:`claim`. Severe damage loses the uuid; then the titles of the copies are compared.
    """
    if uuid:
        names = (f"{uuid} {number}" if number > 1 else str(uuid) for number in count(1))
        there = list(takewhile(os.path.isdir, (folder / name for name in names)))
        owners = {below: _owner(below) for below in there}
        ours = [b for b, owner in owners.items() if owner and inode_of(owner) == inode_of(file)]
        left = [b for b, owner in owners.items() if owner is None or not owner.exists()]
        free = folder / (f"{uuid} {len(there) + 1}" if there else str(uuid))
        return [*ours, *left, free][0]
    for below in sorted(folder.iterdir()) if folder.is_dir() else ():
        for copy in backups(below)[:1]:
            with contextlib.suppress(NotAStory):
                if library.file_name(library.info(copy.path).title) == file.stem:
                    return below
    return folder / file.stem


def claim(folder: Path, file: Path) -> None:
    """Record in ``folder`` that its copies are of the story in ``file``."""
    if _owner(folder) != file:
        with contextlib.suppress(OSError):  # any story may then claim the folder
            paths.write_atomic(folder / _OWNER, os.fsencode(file))


def _owner(folder: Path) -> Path | None:
    """Return the story file that ``folder`` belongs to; None if it is not recorded."""
    try:
        return Path(os.fsdecode((folder / _OWNER).read_bytes()))
    except OSError:
        return None


def restore(backup: Path, target: Path) -> Path:
    """Write the copy to the new story ``target``. Raises NotAStory if it exists, NotSaved or DamagedStory."""
    if target.exists():
        raise NotAStory(target, "is already there — choose another name")
    _copy(backup, target)
    return target


def _copy(source: Path, target: Path) -> None:
    """Copy a story whole, also while it is being written to. The copy has a token of its own.

    A temporary file is renamed to ``target`` when it is complete.
    """
    from srbwriter.story.open import read_story

    temp = target.with_name(f".{paths.shortened(target.name, library.LONGEST_NAME)}.{os.getpid()}.part")
    try:
        paths.make_folder(target.parent)
        image = read_story(source)
        if image.damage is not None:
            raise DamagedStory(source, image.damage.problem)
        write_whole(temp, image.rows, new_token())
        library.rename(temp, target)
    except FileExistsError as error:
        if not target.exists():  # the folder's path is a file
            raise NotSaved(target, f"{error.filename} is no folder", full=False) from error
        raise NotAStory(target, "is already there — choose another name") from None
    except OSError as error:
        raise not_saved(target, error) from error
    finally:
        with contextlib.suppress(OSError):
            temp.unlink()


def keep_old(path: Path, folder: Path, name: str) -> None:
    """Copy the file of an older version as it is, with SQLite's log beside it. Raises NotSaved."""
    moment = time.strftime(_MOMENT, time.localtime())
    target = folder / f"named {moment} {name}{SUFFIX}"
    try:
        paths.make_folder(folder)
        for suffix in ("", "-wal", "-journal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{target}{suffix}")
    except OSError as error:
        raise not_saved(target, error) from error
    claim(folder, path)


def _clear_parts(folder: Path) -> None:
    """Remove the temporary files of copies whose process has ended."""
    for left in folder.glob(".*.part*"):
        found = _PART.search(left.name)
        if found is not None and not _runs(int(found[1])):
            with contextlib.suppress(OSError):
                left.unlink()


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as error:
        return error.errno == errno.EPERM
    return True


def newest_good(folder: Path) -> Backup | None:
    """Return the newest copy in ``folder`` that can be read whole."""
    for copy in backups(folder):
        if not library.info(copy.path).problem:
            return copy
    return None
