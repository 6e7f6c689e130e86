"""Checkpoints beside the writer of an open story: the log is folded into the file, and no commit waits.

A commit to SQLite's log is one sync of the disk, but for three cases: the first commit of an empty log syncs
the log's beginning (and its folder) too, a commit that finds the log long folds it into the file, and the one
after that begins the log again. On a slow disk each of those syncs is a second in which typed words are not
safe. Here they are done by a thread and connections of their own. Knows SQLite, and no row.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

from srbwriter.story.connection import connect, has_log
from srbwriter.story.model import StoryError
from srbwriter.story.store import Store

LIMIT = 4 * 2**20
"""Bytes of a log that is folded into the file; SQLite's own default."""


class Checkpointer:
    """Keeps the log of ``store`` ready for commits of one sync; ``on_folded`` is called when it is empty.

    Both run under :attr:`Store.writing`. Raises sqlite3.Error if the log cannot be prepared.
    """

    def __init__(self, store: Store, on_folded: Callable[[], None]) -> None:
        self._store, self._on_folded = store, on_folded
        self._modified = None if has_log(store.path) and _size(store) else os.stat(store.path).st_mtime_ns
        self._commits, self._due = 0, LIMIT
        self._closing = False
        self._thread: threading.Thread | None = None
        with ExitStack() as opened:
            self._db = opened.enter_context(closing(connect(store.path, "rw", timeout=0)))
            self._reader = opened.enter_context(closing(connect(store.path, "ro", timeout=0)))
            self._begin_log()
            store.db.execute("PRAGMA wal_autocheckpoint = 0")
            opened.pop_all()

    def count_commit(self, wanted: bool = False) -> None:
        """Take note of a commit of the writer; fold the log if it is long, or if that is ``wanted``."""
        self._commits += 1
        if (wanted or _size(self._store) >= self._due) and not self._closing and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="srbwriter-checkpoint", daemon=True)
            self._thread.start()

    def abandon(self) -> None:
        """Begin no further checkpoint; one that is under way goes on."""
        self._closing = True

    def stop(self) -> None:
        """Wait for a checkpoint that is under way. Never to be called under :attr:`Store.writing`."""
        self._closing = True
        if (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """Let go of the file, before the writer does: who is last folds the log."""
        self._reader.close()
        self._db.close()

    def restore_time(self) -> None:
        """Give a closed file its old time if nothing was written into it: to open a story is no change."""
        if self._modified is not None and not self._commits:
            with suppress(OSError):
                os.utime(self._store.path, ns=(os.stat(self._store.path).st_atime_ns, self._modified))

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        with suppress(sqlite3.Error, OSError, StoryError):  # the next commit tries again
            self._fold()
        self._thread = None

    def _fold(self) -> None:
        with self._store.writing:
            self._pin()
            before = self._commits
        busy, there, done = self._db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        with self._store.writing:
            if not busy and there == done and self._commits == before and not self._closing:
                self._begin_log()
                self._on_folded()
            self._due = _size(self._store) + LIMIT

    def _begin_log(self) -> None:
        """Empty a log that is folded, and write its beginning."""
        self._unpin()
        writer = self._store.db
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # By the writer, whose first sync is one of the folder too. In this mode a commit syncs nothing
            # but the beginning of a log; no words are in it that would need more.
            writer.execute("PRAGMA synchronous = NORMAL")
            version = writer.execute("PRAGMA user_version").fetchone()[0]
            writer.execute(f"PRAGMA user_version = {version}")  # the smallest thing that is written
        finally:
            writer.execute("PRAGMA synchronous = FULL")
            self._pin()

    def _pin(self) -> None:
        """Read from here on: SQLite begins a log again only where nobody reads from it."""
        self._unpin()
        self._reader.execute("BEGIN")
        self._reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()

    def _unpin(self) -> None:
        if self._reader.in_transaction:
            self._reader.execute("ROLLBACK")


def _size(store: Store) -> int:
    """Bytes of the log."""
    try:
        return os.stat(f"{store.path}-wal").st_size
    except OSError:
        return 0
