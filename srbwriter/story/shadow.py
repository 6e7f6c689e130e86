"""The shadow of an open story: a second copy of its file, among the program's own files.

A story's file can be replaced while it is open, or after a crash: by a sync client, or by ``cp``, which
writes into the same inode. SQLite would lay the write-ahead log over the new file. The shadow is the file as
it was when the log was last folded into it. So shadow and log are the story as it was open here, whatever
became of its file; and a file with a part that is neither in the shadow nor in the log is another one.

This module knows files and pages, no rows.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import shutil
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

from srbwriter import paths

log = logging.getLogger(__name__)

_PAGE = 4096  # bytes; SQLite's default
_HEAD, _FRAME_HEAD = 32, 24  # bytes before the frames of a log, and before the page of each
_SECTOR = 512  # bytes that a disk writes at once
_PIECE = 1 << 20  # bytes


class Shadow:
    """The shadow of the story at ``path``, made from the open ``file``; kept until :meth:`close`.

    Where there is no room for it, there is none.
    """

    def __init__(self, path: Path, file: int) -> None:
        self.path, self._folder = path, -1
        copy = shadow_of(path)
        try:
            discard(path)
            paths.make_folder(copy.parent)
            self._folder = os.open(copy.parent, os.O_RDONLY)
            fcntl.flock(self._folder, fcntl.LOCK_EX)  # not the copy itself: see srbwriter.story.lock
            part = copy.with_suffix(".part")
            with open(part, "wb", opener=paths.open_own) as new:
                for start in range(0, os.fstat(file).st_size, _PIECE):
                    new.write(os.pread(file, _PIECE, start))
                new.flush()
                os.fsync(new.fileno())
            paths.replace_durably(part, copy)
        except OSError as error:
            self._fail(error)

    def fold(self, logged: bytes) -> None:
        """Fold ``logged``, the bytes of the story's log, into the shadow."""
        try:
            fold(self.path, logged)
        except (OSError, sqlite3.Error) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        log.warning("%s can be replaced without a trace: %s", self.path, error)
        discard(self.path)

    def close(self, keep: bool = False) -> None:
        """Remove the shadow, unless it is to be kept for the next opening."""
        if not keep:
            discard(self.path)
        if self._folder >= 0:
            os.close(self._folder)


def shadow_of(path: Path) -> Path:
    """Return the path of the shadow of the story at ``path``, whether there is one or not."""
    name = hashlib.blake2b(os.fsencode(os.path.realpath(path)), digest_size=16).hexdigest()
    return paths.state_dir() / "open" / name / "shadow.srbw"


def discard(path: Path) -> None:
    shutil.rmtree(shadow_of(path).parent, ignore_errors=True)


def log_of(path: Path) -> bytes:
    """Return the bytes of the log beside the file; none if there is no log."""
    try:
        return Path(f"{path}-wal").read_bytes()
    except FileNotFoundError:
        return b""


def fold(path: Path, logged: bytes) -> None:
    """Fold a log of the story at ``path`` into its shadow. Raises OSError or sqlite3.Error."""
    copy = shadow_of(path)
    if logged:
        paths.write_durable(Path(f"{copy}-wal"), logged, paths.open_own)
    with closing(sqlite3.connect(copy, isolation_level=None)) as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def is_ours(path: Path, file: int) -> bool:
    """Whether the open ``file`` is the story that has a shadow, its log folded into it wholly, partly or not.

    Raises OSError without a shadow.
    """
    logged, pages = memoryview(log_of(path)), dict[int, list[memoryview]]()
    for frame in range(_HEAD, len(logged), _FRAME_HEAD + _PAGE):
        page = logged[frame + _FRAME_HEAD :][:_PAGE]
        pages.setdefault(int.from_bytes(logged[frame : frame + 4], "big"), []).append(page)
    with shadow_of(path).open("rb") as shadow:
        for number in count(1):
            page, before = os.pread(file, _PAGE, (number - 1) * _PAGE), shadow.read(_PAGE)
            versions = before, *pages.get(number, ())
            for start in range(0, len(page), _SECTOR):  # a page may be half written
                sector = slice(start, start + _SECTOR)
                if page != before and all(page[sector] != version[sector] for version in versions):
                    return False
            if not page:
                return not before
    raise AssertionError("unreachable")


def was_replaced(path: Path) -> bool:
    """Whether the file at ``path`` is not the story that was open there when the program was killed.

    The log beside it does not belong to it then, nor does the note. False for a story that is open.
    """
    folder = -1
    try:
        folder = os.open(shadow_of(path).parent, os.O_RDONLY)
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)  # refused while a program has the story open
        with path.open("rb") as file:
            return not is_ours(path, file.fileno())
    except OSError:
        return False
    finally:
        if folder >= 0:
            os.close(folder)
