"""Copies of a story: one a day, rolling, and snapshots with a name. Copies are whole story files.

A copy appears complete or not at all, and nothing is ever overwritten by one. Knows a file and a
folder; who decides when stands above.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story import library
from srbwriter.story.store import SUFFIX
from srbwriter.story.types import NotAStory, NotSaved

KEEP_DAYS = 14
_DAILY = "day"
_NAMED = "named"


@dataclass(frozen=True, slots=True)
class Backup:
    """A copy; ``name`` is empty for a daily one, ``at`` is Unix seconds."""

    path: Path
    name: str
    at: float
    size: int


def daily(source: Path, folder: Path, keep: int = KEEP_DAYS, now: float | None = None) -> Path | None:
    """Today's copy, unless there is one; the oldest beyond ``keep`` are removed. Raises NotSaved."""
    day = time.strftime("%Y-%m-%d", time.localtime(now))
    target = folder / f"{_DAILY} {day}{SUFFIX}"
    if target.exists():
        return None
    _copy(source, target)
    for old in [b for b in backups(folder) if not b.name][keep:]:
        old.path.unlink(missing_ok=True)
    return target


def snapshot(source: Path, folder: Path, name: str, now: float | None = None) -> Path:
    """A copy that stays until it is deleted by hand. Raises NotSaved."""
    moment = time.strftime("%Y-%m-%d %H.%M.%S", time.localtime(now))
    slug = re.sub(r"[^\w .,()-]+", "_", name).strip() or "snapshot"
    target = folder / f"{_NAMED} {moment} {paths.shortened(slug[:80], library.LONGEST_NAME)}{SUFFIX}"
    if target.exists():
        raise NotSaved(target, "there is a snapshot of this name and second already", full=False)
    _copy(source, target)
    return target


def backups(folder: Path) -> list[Backup]:
    """All copies in ``folder``, newest first."""
    found: list[Backup] = []
    for path in folder.glob(f"*{SUFFIX}") if folder.is_dir() else ():
        kind, _, rest = path.stem.partition(" ")
        name = rest[len("2000-01-01 00.00.00 ") :] if kind == _NAMED else ""
        if kind in (_DAILY, _NAMED):
            stat = path.stat()
            found.append(Backup(path, name, stat.st_mtime, stat.st_size))
    return sorted(found, key=lambda b: (b.at, b.path.name), reverse=True)


def folder_of(name: str, folder: Path) -> Path:
    """Where below ``folder`` the copies of the story file called ``name`` lie, as their titles say."""
    for below in sorted(folder.iterdir()) if folder.is_dir() else ():
        for copy in backups(below)[:1]:
            with contextlib.suppress(NotAStory):
                if library.file_name(library.info(copy.path).title) == name:
                    return below
    return folder / name


def restore(backup: Path, target: Path) -> Path:
    """The copy as a story of its own. Raises NotAStory if ``target`` exists, or NotSaved."""
    if target.exists():
        raise NotAStory(target, "is already there — choose another name")
    _copy(backup, target)
    return target


def put_down(story: sqlite3.Connection, target: Path) -> Path:
    """What an open database holds, as a story file of its own. Raises NotAStory if it exists, or NotSaved."""
    _whole(target, lambda temp: _copy_database(story, temp))
    return target


def _copy(source: Path, target: Path) -> None:
    """A consistent copy, also of a story that is being written to."""

    def copy(temp: Path) -> None:
        uri = f"{source.absolute().as_uri()}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as old:
            _copy_database(old, temp)

    _whole(target, copy)


def _whole(target: Path, make: Callable[[Path], None]) -> None:
    """Let ``make`` fill a file that gets its name when it is complete."""
    temp = target.with_name(f".{paths.shortened(target.name, library.LONGEST_NAME)}.{os.getpid()}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temp.touch()  # the system says why it cannot, SQLite does not
        make(temp)
        os.link(temp, target)  # unlike a rename it fails rather than overwrite
    except FileExistsError as error:
        if not target.exists():  # a file stands where the folder should
            raise NotSaved(target, f"{error.filename} is no folder", full=False) from error
        raise NotAStory(target, "is already there — choose another name") from None
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise NotSaved(target, error.strerror or str(error), full=full) from error
    except sqlite3.Error as error:
        full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
        raise NotSaved(target, str(error), full=full) from error
    finally:
        with contextlib.suppress(OSError):
            temp.unlink()


def _copy_database(old: sqlite3.Connection, target: Path) -> None:
    with contextlib.closing(sqlite3.connect(target)) as new:
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # the copy is one file, without a log beside it
    descriptor = os.open(target, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
