"""Checkpoints of an open story on a thread of their own, so that no commit waits for one.

A commit to SQLite's write-ahead log is one sync of the disk, except in three cases: the first commit of an
empty log also syncs the log's header (and its folder), a commit that finds the log long copies it into the
file (a checkpoint), and the next commit restarts the log. On a slow disk each of those syncs is a second in
which typed words are not safe. Here a thread with its own connections does them.
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
"""Bytes of a log that starts a checkpoint; SQLite's own default."""


class Checkpointer:
    """Keeps the log of ``store`` ready for commits of one sync; calls ``on_folded`` when it is empty.

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

    def count_commit(self, forced: bool = False) -> None:
        """Count a commit of the writer; start a checkpoint if the log is long, or if it is ``forced``."""
        self._commits += 1
        if (forced or _size(self._store) >= self._due) and not self._closing and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="srbwriter-checkpoint", daemon=True)
            self._thread.start()

    def abandon(self) -> None:
        """Start no further checkpoint; a running one continues."""
        self._closing = True

    def stop(self) -> None:
        """Wait for a running checkpoint. Never call it under :attr:`Store.writing`."""
        self._closing = True
        if (thread := self._thread) is not None:
            thread.join()

    def close(self) -> None:
        """Close the connections. Must precede the writer's close: the last connection runs the checkpoint."""
        self._reader.close()
        self._db.close()

    def restore_time(self) -> None:
        """Restore the modification time of a closed file if nothing was written to it."""
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
        """Truncate a log after its checkpoint, and write its header."""
        self._unpin()
        writer = self._store.db
        try:
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            # The writer's own connection does this, because its first sync includes the folder. In this mode
            # a commit syncs only the header of a log; that suffices, since the log holds no words yet.
            writer.execute("PRAGMA synchronous = NORMAL")
            version = writer.execute("PRAGMA user_version").fetchone()[0]
            writer.execute(f"PRAGMA user_version = {version}")  # the smallest possible write
        finally:
            writer.execute("PRAGMA synchronous = FULL")
            self._pin()

    def _pin(self) -> None:
        """Open a read transaction: SQLite restarts a log only while no connection reads from it."""
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
