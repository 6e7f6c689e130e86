"""Connections to story files, the files beside them, and errors of the disk as the story's own."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from srbwriter.story.model import DamagedStory, NotAStory, NotMade, NotSaved

_UNREAD = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)
_UNSAVED = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_PERM,
)
NO_STORY = "is not a story — `srbwriter import` reads texts, and the files of other programs"
CLOSE_IT = "close it there, and try again"
_DISK_FULL = "the disk is full — free some space, and try again"
_CLOSED = "access is not permitted — change the permissions, or choose another place"
_CURES = {
    errno.ENOENT: "there is no such file — check the name",
    errno.ENOTDIR: "a file is where a folder should be — check the name, or choose another place",
    errno.EEXIST: "a file is where a folder should be — check the name, or choose another place",
    errno.EISDIR: "is a folder — name a file in it",
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: "nothing can be written there — choose another place",
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: "the disk is full for you — free some space, and try again",
    errno.ENAMETOOLONG: "the name is too long — choose a shorter one",
}


def check_file(path: Path) -> None:
    """Raise NotAStory unless ``path`` is a file that could be a story."""
    if not path.exists():
        raise NotAStory(path, "does not exist — check the name")
    if path.is_dir():
        raise NotAStory(path, "is a folder — name a story in it")
    if not path.is_file():
        raise NotAStory(path, "is not a file")
    if path.stat().st_size == 0:
        raise NotAStory(path, "is empty — delete it to begin a story there, or restore a copy")


def inode_of(path: Path) -> tuple[int, int] | None:
    """Return device and inode of the file at ``path``; None if it does not exist."""
    state = state_of(path)
    return state[:2] if state is not None else None


def state_of(path: Path) -> tuple[int, int, int, int] | None:
    """Return device, inode, size and time of change of the file at ``path``; None if it does not exist."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def log_of(path: Path) -> Path:
    """Return the path of the log beside a story that is open, or was when the program was killed."""
    return path.with_name(f".{path.name}.log")


def lock_of(path: Path) -> Path:
    """Return the path of the lock file beside a story."""
    return path.with_name(f".{path.name}.lock")


def remove(path: Path) -> None:
    """Remove a story file and the files beside it."""
    for file in (path, log_of(path), *(Path(f"{path}{suffix}") for suffix in ("-journal", "-wal", "-shm"))):
        file.unlink(missing_ok=True)


def connect(path: Path, mode: str, timeout: float = 5.0) -> sqlite3.Connection:
    """Connect to a database; operations wait up to ``timeout`` seconds for another connection's lock."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout)
    try:
        db.execute("PRAGMA user_version").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def in_brief(error: OSError) -> str:
    """Return the message for a system error, with a cure if there is one."""
    return _CURES.get(error.errno or 0) or error.strerror or str(error)


@contextmanager
def making(path: Path) -> Generator[None]:
    """Turn errors while a new story is created into NotMade, with a message about ``path``."""
    try:
        yield
    except OSError as error:
        raise NotMade(path, in_brief(error), full=error.errno in (errno.ENOSPC, errno.EDQUOT)) from error
    except NotSaved as error:
        cause = error.__cause__
        if isinstance(error, NotMade):
            words = error.short
        elif isinstance(cause, OSError):
            words = in_brief(cause)
        else:
            words = _DISK_FULL if error.full else f"{error.short} — choose another place"
        raise NotMade(path, words, error.full) from cause


def not_saved(path: Path, error: OSError | sqlite3.Error) -> NotSaved:
    """Return the error of the system or of SQLite about ``path`` as NotSaved."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return NotSaved(path, "another program has it locked", full=False, cure=CLOSE_IT)
    full = getattr(error, "errno", 0) in (errno.ENOSPC, errno.EDQUOT)
    full = full or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_SHMSIZE)  # no room for the log's index
    return NotSaved(path, getattr(error, "strerror", None) or str(error), full)


@contextmanager
def in_words(path: Path) -> Generator[None]:
    """Turn SQLite's errors into NotSaved or DamagedStory."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DamagedStory(path, "bytes that are no characters") from error
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _UNSAVED and code not in _UNREAD:
            raise not_saved(path, error) from error
        raise DamagedStory(path, str(error).splitlines()[0][:200]) from error
