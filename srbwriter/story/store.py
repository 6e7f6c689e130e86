"""One story, one SQLite file: rows in and out, transactions, and errors in words.

Every row is written with its sum, and a body or a value whose sum is another one when it is read raises
DamagedStory. Knows what a row is and nothing of what a verb means. Not thread-safe: the document locks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from srbwriter import paths
from srbwriter.story.connection import (
    close,
    connect,
    copy_aside,
    in_words,
    inode_of,
    looking,
    not_saved,
    quietly,
    remove,
    version_of,
)
from srbwriter.story.migrations import SUMMED, VERSION, migrate
from srbwriter.story.model import DamagedStory, JsonValue, NotAStory, NotSaved
from srbwriter.story.shapes import UNREADABLE, body_fits, body_sum, is_object, row_sum, text_sum, value_fits
from srbwriter.story.tree import Entry

SUFFIX = ".srbw"
_WRITE_AHEAD = "PRAGMA journal_mode = WAL"  # so that readers of other processes never wait
_CHUNK = 500  # host parameters in one statement; SQLite allows at least 999
ENTRY = ", ".join(Entry._fields)
ACTION = "id, parent, verb, node, at, was, became, typed, picked, touched, changes"


class Body(NamedTuple):
    """The heavy half of a node. ``settings``, ``meta`` are JSON; ``name`` its id in the file it came from."""

    text: str = ""
    runs: bytes | None = None
    recipe: int | None = None
    seed: int | None = None
    finish: str = ""
    settings: str | None = None
    meta: str | None = None
    name: str | None = None


BODY = f"id, {', '.join(Body._fields)}"


class Store:
    """An open story file."""

    def __init__(
        self, path: Path, db: sqlite3.Connection, *, writable: bool, temp: Path | None = None
    ) -> None:
        self.path, self.writable = path, writable
        self.db = db
        self.writing = threading.RLock()
        """Held by who has a transaction open."""
        self._reader: sqlite3.Connection | None = None
        self._changing: int | None = None  # the thread whose transaction is open
        self._before = 0  # changes of the connection before it
        self._bodies: dict[int, Body] = {}  # of the open transaction; see write_bodies
        self._unindexed = dict[int, None]()
        self._file = None if temp is not None else inode_of(path)
        self._temp = temp
        self.version = VERSION
        self.commits, self.touched = 0, set[int]()
        """The number of the last transaction here (0: none), and the nodes written, which may be cleared."""
        self.on_commit: Callable[[], None] | None = None
        self.on_damage: Callable[[], None] | None = None

    @classmethod
    def open(cls, path: Path, *, writable: bool) -> Store:
        """Open an existing story: up to date, in a private copy if it may not be written.

        Raises NotAStory, TooNew, DamagedStory, or NotSaved if an upgrade found no room.
        """
        with in_words(path):
            db, temp = (connect(path, "rw"), None) if writable else quietly(path, "ro")
            try:
                if version_of(db, path) < VERSION and not writable and temp is None:
                    db.close()
                    temp = copy_aside(path)
                    db = connect(temp / path.name, "rw")
                if writable:
                    db.execute(_WRITE_AHEAD)
                if writable or temp is not None:
                    migrate(db)
            except BaseException:
                close(db, temp)
                raise
        return cls(path, db, writable=writable, temp=temp)

    @classmethod
    @contextmanager
    def look(cls, path: Path) -> Generator[Store]:
        """The story as it stands, of whatever version; changes neither the file nor the log beside it.

        Raises NotAStory, TooNew or DamagedStory.
        """
        with looking(path) as db:
            store = cls(path, db, writable=False)
            with in_words(path):
                store.version = version_of(db, path)
                db.execute("BEGIN")  # all that is seen is of one moment, though somebody may be writing
            yield store

    @classmethod
    def create(cls, path: Path) -> Store:
        """Make an empty story file. Raises NotAStory if there is one, NotSaved if there is no room."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, paths.OWN_FILE))
        except FileExistsError:
            raise NotAStory(path, "is already there — choose another name, or open it") from None
        except OSError as error:
            raise not_saved(path, error) from error
        db: sqlite3.Connection | None = None
        try:
            with in_words(path):
                db = connect(path, "rw")
                db.execute(_WRITE_AHEAD)
                migrate(db)
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file itself says what it is
        except BaseException:
            if db is not None:
                db.close()
            remove(path)
            raise
        return cls(path, db, writable=True)

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        close(self.db, self._temp)

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All or nothing; on the disk when it returns. Raises NotSaved or DamagedStory."""
        self.begin()
        try:
            with self.in_words():
                yield
                self.write_bodies()
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def begin(self) -> None:
        """Open a transaction. Raises NotSaved where its words would not be found again."""
        if self.writable and self._file is not None and inode_of(self.path) != self._file:
            raise NotSaved(self.path, "the file was moved or deleted while it was open", full=False)
        self.rollback()  # of one that a failing disk left open
        with self.in_words():
            self.db.execute("BEGIN IMMEDIATE")
        self._changing, self._before = threading.get_ident(), self.db.total_changes

    def commit(self) -> None:
        """On the disk when it returns. Raises NotSaved or DamagedStory; then roll it back."""
        with self.in_words(*UNREADABLE):
            number = self._number() if self.db.total_changes != self._before else 0
            self.db.execute("COMMIT")
        if number:
            self.commits = number
            if self.on_commit is not None:
                self.on_commit()
        self._changing = None

    def rollback(self) -> None:
        """Nothing of the open transaction has happened; also when there is none."""
        self._changing = None
        self._bodies.clear()
        self._unindexed.clear()
        with self.in_words():
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _number(self) -> int:
        """Number the transaction, and say which node is the last: so it is noticed if they are lost."""
        last: int = self.db.execute("SELECT coalesce(max(id), 0) FROM node").fetchone()[0]
        number = (self.commits or self.numbered()[0]) + 1
        self.put_value("written", [number, last])
        return number

    def numbered(self) -> tuple[int, int]:
        """The numbers of the last transaction and of the last node; 0 in a story just brought up to date."""
        commits, last = self.value("written", [0, 0])
        return commits, last

    def checkpoint(self) -> bool:
        """Fold the log into the file as far as readers allow; whether nothing is in the log alone now."""
        with self.in_words():
            busy, there, done = self.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return not busy and there == done

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The connection for a query; raises DamagedStory, also for what the rows hold.

        Who writes reads what they have written. Everybody else reads what is on the disk, over a connection
        of its own: SQLite lets one wait for the other, and a commit can take a second on a slow disk.
        """
        with self.in_words(*UNREADABLE):
            if not self.writable or self._changing == threading.get_ident():
                self.write_bodies()
                yield self.db
                return
            if self._reader is None:
                self._reader = connect(self.path, "ro")
            yield self._reader

    @contextmanager
    def one_moment(self) -> Generator[bool]:
        """What is read inside is of one moment, also where another process is writing the story.

        Gives False where that is so anyhow: nobody else writes, or it is inside another one.
        """
        begun = not self.writable and not self.db.in_transaction
        if begun:
            with self.in_words():
                self.db.execute("BEGIN")
        try:
            yield begun
        finally:
            if begun:
                self.rollback()

    @contextmanager
    def in_words(self, *unreadable: type[Exception]) -> Generator[None]:
        """SQLite's errors become NotSaved or DamagedStory."""
        try:
            with in_words(self.path, *unreadable):
                yield
        except DamagedStory:
            if self.on_damage is not None:
                self.on_damage()
            raise

    def put(
        self, table: str, columns: str, rows: Iterable[Sequence[Any]], total: Callable[..., int] = row_sum
    ) -> None:
        """Write ``rows``, each with its sum, in the place of those with the same key."""
        marks = ", ".join("?" * (columns.count(",") + 2))
        query = f"INSERT OR REPLACE INTO {table} ({columns}, sum) VALUES ({marks})"
        self.db.executemany(query, ((*row, total(*row)) for row in rows))

    # -- values ------------------------------------------------------------------------------------

    def value(self, key: str, default: JsonValue = None) -> JsonValue:
        with self.reading() as db:
            summed = self.version >= SUMMED
            total = "sum" if summed else "NULL"
            row = db.execute(f"SELECT json, {total} FROM value WHERE key = ?", (key,)).fetchone()
            if row is None:
                return default
            if summed and row_sum(key, row[0]) != row[1]:
                raise DamagedStory(self.path, f"the story's {key} is not as it was written")
            found: JsonValue = json.loads(row[0])
            if not value_fits(key, found):
                raise DamagedStory(self.path, f"the story's {key} cannot be {row[0][:40]}")
            return found

    def put_value(self, key: str, value: JsonValue) -> None:
        self.put("value", "key, json", [(key, json.dumps(value))])

    # -- nodes -------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        with self.reading() as db:
            yield from map(Entry._make, db.execute(f"SELECT {ENTRY} FROM node"))

    def put_entries(self, entries: Iterable[Entry]) -> None:
        entries = list(entries)
        self.put("node", ENTRY, entries)
        self.touched.update(entry.id for entry in entries)

    def bodies(self, ids: Sequence[int]) -> dict[int, Body]:
        """The bodies of ``ids``; missing ones are left out."""
        found: dict[int, Body] = {}
        with self.reading():
            for *row, total in self._of_bodies(f"{BODY}, sum", ids):
                if body_sum(*row) != total:
                    raise DamagedStory(self.path, f"node {row[0]} is not as it was written")
                if not body_fits(tuple(row)):
                    raise DamagedStory(self.path, f"node {row[0]} holds what it cannot")
                body = Body(*row[1:])
                found[row[0]] = body._replace(seed=body.seed % 2**64) if body.seed is not None else body
        return found

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """The text alone, for long paths."""
        found: dict[int, str] = {}
        with self.reading():
            for node, text, total in self._of_bodies("id, text, sum", ids):
                if text_sum(node, text) != total & 0xFFFF_FFFF:
                    raise DamagedStory(self.path, f"the text of node {node} is not as it was written")
                found[node] = text
        return found

    def _of_bodies(self, columns: str, ids: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        with self.reading() as db:
            for start in range(0, len(ids), _CHUNK):
                chunk = ids[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                yield from db.execute(f"SELECT {columns} FROM body WHERE id IN ({marks})", chunk)

    def put_body(self, node: int, body: Body) -> None:
        """Put ``body`` into the open transaction; :meth:`write_bodies` writes it."""
        self._bodies[node] = body
        self.touched.add(node)

    def put_unindexed(self, node: int) -> None:
        """Note that the search index has an old text of ``node``; :meth:`write_bodies` writes the note."""
        self._unindexed[node] = None

    def write_bodies(self) -> None:
        """Write the bodies put so far: before the transaction ends, and before each query inside it."""
        if self._bodies:
            rows = [(node, *body._replace(seed=_signed(body.seed))) for node, body in self._bodies.items()]
            self.put("body", BODY, rows, body_sum)
            self._bodies.clear()
        if self._unindexed:
            rows = [(node,) for node in self._unindexed]
            self.db.executemany("INSERT OR IGNORE INTO unindexed VALUES (?)", rows)
            self._unindexed.clear()

    def recipe(self, model: str, sampling: str) -> int:
        """The number of a model and its sampling, made if it is new."""
        self.db.execute("INSERT OR IGNORE INTO recipe (model, sampling) VALUES (?, ?)", (model, sampling))
        row = self.db.execute("SELECT id FROM recipe WHERE model = ? AND sampling = ?", (model, sampling))
        return int(row.fetchone()[0])

    def recipes(self) -> dict[int, tuple[str, str]]:
        with self.reading() as db:
            rows = db.execute("SELECT id, model, sampling FROM recipe").fetchall()
            return {row[0]: (str(row[1]), row[2] if is_object(row[2]) else "{}") for row in rows}


def _signed(seed: int | None) -> int | None:
    """``seed`` as SQLite keeps whole numbers; the higher half of those with 64 bits lies below zero there."""
    return seed if seed is None or seed < 2**63 else seed - 2**64
