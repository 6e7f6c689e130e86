"""Read and write the rows of a story's SQLite file, in transactions.

Each row is written with a checksum; reading a body or a value with a wrong one raises DamagedStory. Nothing
here knows what a verb means. Not thread-safe: the document holds the locks.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from srbwriter import paths
from srbwriter.story.connection import (
    IN_LIST,
    close,
    connect,
    copy_aside,
    in_words,
    inode_of,
    looking,
    not_saved,
    quietly,
    remove,
    remove_log,
    state_of,
    version_of,
)
from srbwriter.story.migrations import SUMMED, VERSION, migrate
from srbwriter.story.model import DamagedStory, JsonValue, NotAStory, NotSaved, SecondFile, StoryError
from srbwriter.story.shadow import is_ours
from srbwriter.story.shapes import UNREADABLE, body_fits, body_sum, is_object, row_sum, text_sum, value_fits
from srbwriter.story.tree import Entry

SUFFIX = ".srbw"
_WRITE_AHEAD = "PRAGMA journal_mode = WAL"  # so that readers of other processes never wait
ENTRY = ", ".join(Entry._fields)
ACTION = "id, parent, verb, node, at, was, became, typed, picked, touched, changes"


class Body(NamedTuple):
    """The text and other large fields of a node.

    ``settings`` and ``meta`` are JSON; ``name`` is the node's id in the file that it was imported from.
    """

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
        """Held while a transaction is open."""
        self._reader = connect(path, "ro") if writable else db
        self.raw = os.open(path, os.O_RDONLY) if writable else -1
        """The file itself. Closing a descriptor of it would drop SQLite's locks, so this one is kept."""
        self._seen = state_of(path) if writable else None  # as this program left it
        self._log = inode_of(Path(f"{path}-wal"))
        self.folding = False
        """Whether a checkpoint changes the file."""
        self._changing: int | None = None  # the thread with the open transaction
        self._before = 0  # changes of the connection before it
        self._bodies: dict[int, Body] = {}  # of the open transaction; see write_bodies
        self._unindexed = dict[int, None]()
        self._temp = temp
        self.version = VERSION
        self.commits, self.touched = 0, set[int]()
        """The number of the last transaction here (0: none), and the nodes written since it was cleared."""
        self.on_commit: Callable[[], None] | None = None
        self.second_file: SecondFile | None = None
        self.on_damage: Callable[[], None] | None = None
        self.on_replaced: Callable[[], None] | None = None

    @classmethod
    def open(cls, path: Path, *, writable: bool) -> Store:
        """Open an existing story and upgrade it; a read-only one of an older version as a private copy.

        Raises NotAStory, TooNew, DamagedStory, or NotSaved if there is no room for the upgrade.
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
                    db.execute("PRAGMA wal_autocheckpoint = 0")
                if writable or temp is not None:
                    migrate(db)
                return cls(path, db, writable=writable, temp=temp)
            except BaseException:
                close(db, temp)
                raise

    @classmethod
    @contextmanager
    def look(cls, path: Path) -> Generator[Store]:
        """Open a story of any version for reading, without changing its file or the log beside it.

        Raises NotAStory, TooNew or DamagedStory.
        """
        with looking(path) as db:
            store = cls(path, db, writable=False)
            with in_words(path):
                store.version = version_of(db, path)
                db.execute("BEGIN")  # all reads see one moment, even if another process writes
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
                db.execute("PRAGMA wal_autocheckpoint = 0")
                migrate(db)
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file itself says what it is
                return cls(path, db, writable=True)
        except BaseException:
            if db is not None:
                db.close()
            remove(path)
            raise

    def close(self, fold: bool = True) -> None:
        """Close the file; its log is folded into it and removed, unless ``fold`` is false."""
        if fold and self.raw >= 0:
            with suppress(StoryError):
                self.checkpoint()  # SQLite runs none while another window reads the story
        # Nor does it where the last connection is read-only.
        last, first = (self.db, self._reader) if fold else (self._reader, self.db)
        first.close()
        close(last, self._temp)
        if self.raw >= 0:
            os.close(self.raw)
            self.raw = -1

    # -- a file that another program replaces --------------------------------------------------------

    @property
    def replaced(self) -> bool:
        """Whether another program has replaced or changed the file; False if it was moved or deleted."""
        now = state_of(self.path)
        if self.raw < 0 or self.folding or now in (None, self._seen):
            return False
        with suppress(OSError):  # there is no shadow
            if not self.renamed_over and is_ours(self.path, self.raw):
                self._seen = now  # only the time is another
                return False
        return True

    @property
    def renamed_over(self) -> bool:
        """Whether another file has the path of this one, which goes on without a name."""
        return self._seen is not None and inode_of(self.path) != self._seen[:2]

    def remove_log(self, keep: bool = False) -> None:
        """Remove the log of the closed file, or rename it, unless another program has replaced that, too."""
        log = Path(f"{self.path}-wal")
        if log.exists() and inode_of(log) == self._log:
            if keep:
                log.rename(f"{log}.kept")
            remove_log(self.path)

    def note_state(self) -> None:
        """Take the file as it is now for what this program has written."""
        if not self.renamed_over:
            self._seen = state_of(self.path)

    def move_to(self, path: Path) -> None:
        """Go on in the file at ``path``, which holds the same story."""
        moved = Store.open(path, writable=True)
        self.close(fold=False)
        self.remove_log()
        self.path, self.db, self._reader, self.raw = moved.path, moved.db, moved._reader, moved.raw
        self._seen, self._log = moved._seen, moved._log

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Run a transaction, which is on the disk at the end. Raises NotSaved or DamagedStory."""
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
        """Open a transaction. Raises NotSaved if the file was moved or deleted."""
        if self.renamed_over:
            raise NotSaved(self.path, "the file was moved or deleted while it was open", full=False)
        self.rollback()  # of one that a failing disk left open
        with self.in_words():
            if not self.log_size:
                self._begin_log()
            self.db.execute("BEGIN IMMEDIATE")
        self._changing, self._before = threading.get_ident(), self.db.total_changes

    @property
    def log_size(self) -> int:
        """Bytes of the log."""
        try:
            return os.stat(f"{self.path}-wal").st_size
        except OSError:
            return 0

    def _begin_log(self) -> None:
        """Write the head of an empty log, which the sync of the next commit covers, without its own sync."""
        self.db.execute("PRAGMA synchronous = OFF")
        try:
            version = self.db.execute("PRAGMA user_version").fetchone()[0]
            self.db.execute(f"PRAGMA user_version = {version}")  # the smallest possible write
        finally:
            self.db.execute("PRAGMA synchronous = FULL")

    def commit(self) -> None:
        """Commit the transaction and sync it. Raises NotSaved or DamagedStory; then roll it back."""
        with self.in_words(*UNREADABLE):
            number = self._number() if self.db.total_changes != self._before else 0
            self.db.execute("COMMIT")
        if number:
            self.commits = number
            if self.on_commit is not None:
                self.on_commit()
        self._changing = None

    def rollback(self) -> None:
        """Roll back the open transaction, if there is one."""
        self._changing = None
        self._bodies.clear()
        self._unindexed.clear()
        with self.in_words():
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    def _number(self) -> int:
        """Write the number of the transaction and of the last node, so that a loss of either is noticed."""
        last: int = self.db.execute("SELECT coalesce(max(id), 0) FROM node").fetchone()[0]
        number = (self.commits or self.numbered()[0]) + 1
        self.put_value("written", [number, last])
        return number

    def numbered(self) -> tuple[int, int]:
        """Return the numbers of the last transaction and of the last node; 0 in a story just upgraded."""
        commits, last = self.value("written", [0, 0])
        return commits, last

    def checkpoint(self) -> bool:
        """Fold the log into the file as far as readers allow; say whether it is empty now."""
        with self.in_words():
            busy = self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        self.note_state()
        return not busy

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """Give a connection for queries. Raises DamagedStory, also for values that rows cannot hold.

        The thread with the open transaction reads its own changes. Other threads read the committed rows over
        a second connection: on a shared one they would wait for a commit, which may take a second.
        """
        with self.in_words(*UNREADABLE):
            if not self.writable or self._changing == threading.get_ident():
                self.write_bodies()
                yield self.db
                return
            yield self._reader

    @contextmanager
    def one_moment(self) -> Generator[bool]:
        """Read rows of one moment inside, even if another process is writing the story.

        Gives False if that needs no transaction: no other process can write, or one is open already.
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
        """Raise SQLite's errors as NotSaved or DamagedStory."""
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
        """Write ``rows``, each with its checksum; they replace rows with the same key."""
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
        """Return the bodies of ``ids``, without missing ones."""
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
        """Return the texts of ``ids``, without missing ones; for long paths."""
        found: dict[int, str] = {}
        with self.reading():
            for node, text, total in self._of_bodies("id, text, sum", ids):
                if text_sum(node, text) != total & 0xFFFF_FFFF:
                    raise DamagedStory(self.path, f"the text of node {node} is not as it was written")
                found[node] = text
        return found

    def _of_bodies(self, columns: str, ids: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        with self.reading() as db:
            yield from db.execute(f"SELECT {columns} FROM body WHERE id {IN_LIST}", (json.dumps([*ids]),))

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
        """Return the number of a model and its sampling; a new pair gets one."""
        self.db.execute("INSERT OR IGNORE INTO recipe (model, sampling) VALUES (?, ?)", (model, sampling))
        row = self.db.execute("SELECT id FROM recipe WHERE model = ? AND sampling = ?", (model, sampling))
        return int(row.fetchone()[0])

    def recipes(self) -> dict[int, tuple[str, str]]:
        with self.reading() as db:
            rows = db.execute("SELECT id, model, sampling FROM recipe").fetchall()
            return {row[0]: (str(row[1]), row[2] if is_object(row[2]) else "{}") for row in rows}


def _signed(seed: int | None) -> int | None:
    """Return ``seed`` as a signed 64-bit integer, which SQLite can hold."""
    return seed if seed is None or seed < 2**63 else seed - 2**64
