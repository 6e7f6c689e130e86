"""Connections to story files, private copies of them, and SQLite's errors as the story's own.

SQLite may change a file that it only opens: it copies a log beside the file into it, or deletes the log. A
file that may be damaged is therefore opened read-only, or in a copy. This module knows no table.
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from srbwriter.story.migrations import APPLICATION_ID, VERSION
from srbwriter.story.model import DamagedStory, NotAStory, NotMade, NotSaved, StoryError, TooNew
from srbwriter.story.shadow import discard, was_replaced

MAGIC = b"SQLite format 3\0"
LOGS = "-wal", "-journal"
IN_LIST = "IN (SELECT value FROM json_each(?))"
"""Takes a JSON list. Placeholders would make a statement for each length, of which sqlite3 keeps 128."""
"""Suffixes of the files that SQLite keeps beside a database until a checkpoint or rollback."""
_PIECE = 4096  # bytes
_NO_TEXT = "bytes that are no characters"
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


@contextmanager
def looking(path: Path) -> Generator[sqlite3.Connection]:
    """Connect to a story for reading, without changing the file or the log beside it.

    Raises DamagedStory, or NotSaved if there is no room for a copy, where one is needed.
    """
    with in_words(path):
        db, temp = quietly(path, "ro" if has_log(path) else "ro&immutable=1")
    try:
        yield db
    finally:
        close(db, temp)


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


def remove(path: Path) -> None:
    """Remove a database file and the files that SQLite put beside it."""
    path.unlink(missing_ok=True)
    remove_log(path)
    discard(path)


def remove_log(path: Path) -> None:
    """Remove the files that SQLite put beside a database."""
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def has_log(path: Path) -> bool:
    """Whether a log beside the file may hold part of the story: it is open, or its writer crashed."""
    return any(Path(f"{path}{suffix}").exists() for suffix in LOGS)


def quietly(path: Path, mode: str) -> tuple[sqlite3.Connection, Path | None]:
    """Connect for reading; return the folder of a private copy, too, if SQLite cannot read in place.

    It cannot if the folder is not writable for its own files, or with a transaction to roll back. A log that
    does not belong to the file is not read.
    """
    try:
        return connect(path, "ro&immutable=1" if was_replaced(path) else mode), None
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        temp = copy_aside(path)
    try:
        return connect(temp / path.name, "rw"), temp
    except BaseException:
        shutil.rmtree(temp, ignore_errors=True)
        raise


def close(db: sqlite3.Connection, temp: Path | None) -> None:
    db.close()
    if temp is not None:
        shutil.rmtree(temp, ignore_errors=True)


def connect(path: Path, mode: str, timeout: float = 5.0) -> sqlite3.Connection:
    """Connect to a database; operations wait up to ``timeout`` seconds for another connection's lock."""
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the document's lock admits one thread at a time
        timeout=timeout,
    )
    try:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("PRAGMA cache_size = -16384")  # KiB
        db.execute("PRAGMA temp_store = MEMORY")
        db.execute("PRAGMA user_version").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def version_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the story version. A file whose creation was interrupted is version 0 and empty."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    empty = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID and not (empty and version == 0):
        ours = "SELECT count(*) FROM sqlite_schema WHERE name IN ('value', 'node', 'body', 'recipe')"
        if db.execute(ours).fetchone()[0] == 4:
            raise DamagedStory(path, "the mark of a story is gone from it")
        raise NotAStory(path, "is a database, but not a story")
    if version > VERSION + 1000:
        raise DamagedStory(path, f"it cannot be of version {version}")
    if version > VERSION:
        raise TooNew(path, version, VERSION)
    return version


def copy_aside(path: Path) -> Path:
    """Copy the file and its log to a new private folder; return the folder. Raises NotSaved without room."""
    folder = Path(tempfile.mkdtemp(prefix="srbwriter-"))
    try:
        for suffix in ("",) if was_replaced(path) else ("", *LOGS):
            source = Path(f"{path}{suffix}")
            if source.exists():
                _copy(source, folder / source.name)
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise NotSaved(folder, f"no copy of {path} to work on could be made ({error})", full) from error
    return folder


def _copy(source: Path, target: Path) -> None:
    """Copy the readable parts of ``source``; unreadable parts become zeros."""
    with source.open("rb", buffering=0) as old, target.open("wb") as new:
        size = os.fstat(old.fileno()).st_size
        for start in range(0, size, _PIECE):
            try:
                new.write(os.pread(old.fileno(), _PIECE, start))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                new.seek(min(start + _PIECE, size))
        new.truncate(size)


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
def in_words(path: Path, *unreadable: type[Exception]) -> Generator[None]:
    """Turn SQLite's errors into StoryErrors, and exceptions of ``unreadable`` into DamagedStory."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise DamagedStory(path, _NO_TEXT) from error
    except (sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:  # a programming error
        if "closed" in str(error):
            raise StoryError(f"{path}: the story is closed") from error
        raise
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _UNSAVED and code not in _UNREAD:
            raise not_saved(path, error) from error
        problem = str(error)
        if problem.startswith("Could not decode"):  # SQLite appends the whole text
            problem = _NO_TEXT
        raise DamagedStory(path, problem) from error
    except unreadable as error:
        raise DamagedStory(path, f"a row holds what it cannot: {error}"[:200]) from error
