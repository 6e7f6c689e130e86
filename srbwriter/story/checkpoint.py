"""Checkpoints of an open story on a thread of their own, so that no commit waits for one.

A second after the last change, or when it is long, SQLite's write-ahead log is folded into the file and
emptied: a story at rest is one whole file. On a slow disk each sync of that is a second in which typed words
are not safe. Here a thread does them with connections of its own.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from srbwriter.story.connection import connect
from srbwriter.story.model import StoryError
from srbwriter.story.shadow import Shadow, log_of
from srbwriter.story.store import Store

LIMIT = 4 * 2**20
"""Bytes of a log that starts a checkpoint at once; SQLite's own default."""

REST_SECONDS = 1.0
"""From the last commit to a checkpoint."""


class Checkpointer:
    """Folds the log of ``store`` into its file, and into ``shadow``; calls ``on_folded`` when it is empty.

    Both run under :attr:`Store.writing`.
    """

    def __init__(self, store: Store, shadow: Shadow, on_folded: Callable[[], None]) -> None:
        self._store, self._shadow, self._on_folded = store, shadow, on_folded
        self._commits, self._limit = 0, LIMIT
        self._wake = threading.Condition()
        self._due: float | None = None
        self._closing = False
        self._thread: threading.Thread | None = None

    def count_commit(self, forced: bool = False) -> None:
        """Count a commit of the writer; a checkpoint follows it, at once if the log is long or ``forced``."""
        self._commits += 1
        at_once = forced or self._store.log_size >= self._limit
        with self._wake:
            self._due = time.monotonic() + (0 if at_once else REST_SECONDS)
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(target=self._run, name="srbwriter-checkpoint", daemon=True)
                self._thread.start()
            elif at_once:
                self._wake.notify()

    def abandon(self) -> None:
        """Start no further checkpoint; a running one continues."""
        with self._wake:
            self._closing = True
            self._wake.notify()

    def stop(self) -> None:
        """Wait for a running checkpoint. Never call it under :attr:`Store.writing`."""
        self.abandon()
        if (thread := self._thread) is not None:
            thread.join()

    # -- the thread ------------------------------------------------------------------------------------

    def _run(self) -> None:
        while self._wait():
            with suppress(sqlite3.Error, OSError, StoryError):  # the next commit tries again
                self._fold()

    def _wait(self) -> bool:
        """Wait until a checkpoint is due; return False if none is."""
        with self._wake:
            while not self._closing and self._due is not None:
                left = self._due - time.monotonic()
                if left <= 0:
                    self._due = None
                    return True
                self._wake.wait(left)
            self._thread = None
            return False

    def _fold(self) -> None:
        store = self._store
        with store.writing:
            if self._closing or store.replaced:
                return
            store.folding = True
        try:
            # Closed in this order: a read-only connection that closes last changes no file.
            with (
                closing(connect(store.path, "ro", timeout=0)) as reader,
                closing(connect(store.path, "rw", timeout=0)) as db,
            ):
                if not store.renamed_over:  # since: else these are of another file
                    self._fold_with(db, reader)
        finally:
            with store.writing:
                store.folding = False
                store.note_state()
                self._limit = store.log_size + LIMIT

    def _fold_with(self, db: sqlite3.Connection, reader: sqlite3.Connection) -> None:
        store = self._store
        with store.writing:
            # SQLite restarts a log, which costs the writer a sync, only while no connection reads from it.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            before, logged = self._commits, log_of(store.path)
        busy, there, done = db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if not busy and there == done:
            self._shadow.fold(logged)
            with store.writing:
                if self._commits == before:
                    reader.execute("ROLLBACK")
                    busy = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                    if not busy:
                        self._on_folded()
                        return
        with self._wake:
            self._due = self._due or time.monotonic() + REST_SECONDS
