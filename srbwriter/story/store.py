"""One story, one SQLite file: rows in and out, transactions, and errors in words.

Knows what a row is and nothing of what a verb means. Not thread-safe: the desk holds the lock.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from srbwriter.story.draft import JsonValue
from srbwriter.story.migrations import APPLICATION_ID, VERSION, migrate
from srbwriter.story.tree import Entry
from srbwriter.story.types import NotAStory, NotSaved, StoryError, TooNew, counted

SUFFIX = ".srbw"
MAGIC = b"SQLite format 3\0"
_CHUNK = 500  # host parameters in one statement; SQLite allows at least 999
_ENTRY = ", ".join(Entry._fields)
_PUT_ENTRY = f"INSERT OR REPLACE INTO node ({_ENTRY}) VALUES ({', '.join('?' * len(Entry._fields))})"
_LOST = """
    SELECT count(*) FROM node
    WHERE coalesce(parent, 0) <> CASE id WHEN 1 THEN 0 ELSE -1 END
    AND (id = 1 OR parent IS NULL OR NOT EXISTS (SELECT 1 FROM node AS above WHERE above.id = node.parent))"""


class DamagedStory(StoryError):
    """Part of the file cannot be read. Open it again to get everything that can."""

    def __init__(self, path: Path, problem: str) -> None:
        self.path, self.problem = path, problem
        super().__init__(f"{path}: the file is damaged ({problem}) — open it again to read what is left")


@dataclass(frozen=True, slots=True)
class Body:
    """The heavy half of a node. ``settings``, ``meta`` are JSON; ``name`` its id in the file it came from."""

    text: str = ""
    runs: bytes | None = None
    recipe: int | None = None
    seed: int | None = None
    finish: str = ""
    settings: str | None = None
    meta: str | None = None
    name: str | None = None


class Store:
    """An open story file."""

    def __init__(
        self, path: Path, db: sqlite3.Connection, *, writable: bool, temp: Path | None = None
    ) -> None:
        self.path, self.writable = path, writable
        self.db = db
        self._reader: sqlite3.Connection | None = None
        self._changing: int | None = None  # the thread whose transaction is open
        self._file = None if temp is not None else _identity(path)
        self._temp = temp
        self.on_damage: Callable[[], None] | None = None

    @classmethod
    def open(
        cls, path: Path, *, writable: bool, before_upgrade: Callable[[int], None] | None = None
    ) -> Store:
        """Open an existing story, bringing it up to date if it may be written.

        ``before_upgrade`` is told the old version.

        Raises NotAStory, TooNew, DamagedStory, or NotSaved if an upgrade found no room.
        """
        check_file(path)
        temp: Path | None = None
        with _in_words(path):
            try:
                db = _connect(path, "rw" if writable else "ro")
            except sqlite3.OperationalError:
                if writable:
                    raise
                temp = copy_aside(path)  # a folder that cannot be written has no place for SQLite's own files
                db = _connect(temp / path.name, "rw")
            try:
                version = _version(db, path)
                if writable:
                    _use_log(db)
                    if before_upgrade is not None and 0 < version < VERSION:
                        before_upgrade(version)
                if version < VERSION and not writable and temp is None:
                    db.close()
                    temp = copy_aside(path)  # an old story is read through an upgraded copy
                    db = _connect(temp / path.name, "rw")
                if writable or temp is not None:
                    migrate(db)
            except BaseException:
                db.close()
                raise
        return cls(path, db, writable=writable, temp=temp)

    @classmethod
    def create(cls, path: Path) -> Store:
        """Make an empty story file. Raises NotAStory if there is one, NotSaved if there is no room."""
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            raise NotAStory(path, "is already there — choose another name, or open it") from None
        except OSError as error:
            raise NotSaved(path, error.strerror or str(error), full=False) from error
        try:
            with _in_words(path):
                db = _connect(path, "rw")
                _use_log(db)
                migrate(db)
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # the file itself says what it is
        except BaseException:
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)
            raise
        return cls(path, db, writable=True)

    def check(self, *, thorough: bool) -> None:
        """Raise DamagedStory if the tree is broken, or, looking at every page, the file."""
        with self.reading() as db:
            problem = str(db.execute("PRAGMA quick_check(1)").fetchone()[0]) if thorough else "ok"
            lost: int = db.execute(_LOST).fetchone()[0]
        if problem != "ok":
            raise DamagedStory(self.path, problem.splitlines()[-1])  # SQLite names its own file first
        if lost:
            raise DamagedStory(self.path, f"what they hung on is lost of {counted(lost, 'node')}")

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
        self.db.close()
        if self._temp is not None:
            shutil.rmtree(self._temp, ignore_errors=True)

    # -- transactions ------------------------------------------------------------------------------

    @contextmanager
    def transaction(self) -> Generator[None]:
        """All or nothing; on the disk when it returns. Raises NotSaved or DamagedStory."""
        self.begin()
        try:
            with self.in_words():
                yield
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def begin(self) -> None:
        """Open a transaction. Raises NotSaved where its words would not be found again."""
        if self.writable and self._file is not None and _identity(self.path) != self._file:
            raise NotSaved(self.path, "the file was moved or deleted while it was open", full=False)
        self.rollback()  # of one that a failing disk left open
        with self.in_words():
            self.db.execute("BEGIN IMMEDIATE")
        self._changing = threading.get_ident()

    def commit(self) -> None:
        """On the disk when it returns. Raises NotSaved or DamagedStory; then roll it back."""
        with self.in_words():
            self.db.execute("COMMIT")
        self._changing = None

    def rollback(self) -> None:
        """Nothing of the open transaction has happened; also when there is none."""
        self._changing = None
        with self.in_words():
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection]:
        """The connection for a query; raises DamagedStory.

        Who writes reads what they have written. Everybody else reads what is on the disk, over a connection
        of its own: SQLite lets one wait for the other, and a commit can take a second on a slow disk.
        """
        with self.in_words():
            if not self.writable or self._changing == threading.get_ident():
                yield self.db
                return
            if self._reader is None:
                self._reader = _connect(self.path, "ro")
            yield self._reader

    @contextmanager
    def in_words(self) -> Generator[None]:
        """SQLite's errors become NotSaved or DamagedStory."""
        try:
            with _in_words(self.path):
                yield
        except DamagedStory:
            if self.on_damage is not None:
                self.on_damage()
            raise

    # -- values ------------------------------------------------------------------------------------

    def value(self, key: str, default: JsonValue = None) -> JsonValue:
        with self.reading() as db:
            row = db.execute("SELECT json FROM value WHERE key = ?", (key,)).fetchone()
        return default if row is None else json.loads(row[0])

    def put_value(self, key: str, value: JsonValue) -> None:
        self.db.execute("INSERT OR REPLACE INTO value VALUES (?, ?)", (key, json.dumps(value)))

    # -- nodes -------------------------------------------------------------------------------------

    def entries(self) -> Iterator[Entry]:
        with self.reading() as db:
            yield from map(Entry._make, db.execute(f"SELECT {_ENTRY} FROM node"))

    def put_entries(self, entries: Iterable[Entry]) -> None:
        self.db.executemany(_PUT_ENTRY, entries)

    def bodies(self, ids: Sequence[int]) -> dict[int, Body]:
        """The bodies of ``ids``; missing ones are left out."""
        columns = "id, text, runs, recipe, seed, finish, settings, meta, name"
        return {row[0]: Body(*row[1:]) for row in self._of_bodies(columns, ids)}

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """The text alone, for long paths."""
        return dict(self._of_bodies("id, text", ids))

    def _of_bodies(self, columns: str, ids: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        with self.reading() as db:
            for start in range(0, len(ids), _CHUNK):
                chunk = ids[start : start + _CHUNK]
                marks = ",".join("?" * len(chunk))
                yield from db.execute(f"SELECT {columns} FROM body WHERE id IN ({marks})", chunk)

    def put_body(self, node: int, body: Body) -> None:
        self.db.execute(
            "INSERT OR REPLACE INTO body (id, text, runs, recipe, seed, finish, settings, meta, name) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                node, body.text, body.runs, body.recipe, body.seed,
                body.finish, body.settings, body.meta, body.name,
            ),
        )  # fmt: skip

    def put_unindexed(self, node: int) -> None:
        self.db.execute("INSERT OR IGNORE INTO unindexed VALUES (?)", (node,))

    def recipe(self, model: str, sampling: str) -> int:
        """The number of a model and its sampling, made if it is new."""
        self.db.execute("INSERT OR IGNORE INTO recipe (model, sampling) VALUES (?, ?)", (model, sampling))
        row = self.db.execute("SELECT id FROM recipe WHERE model = ? AND sampling = ?", (model, sampling))
        return int(row.fetchone()[0])

    def recipes(self) -> dict[int, tuple[str, str]]:
        with self.reading() as db:
            return {row[0]: (row[1], row[2]) for row in db.execute("SELECT id, model, sampling FROM recipe")}


def check_file(path: Path) -> None:
    """Raise NotAStory unless ``path`` is a file that could be a story."""
    if not path.exists():
        raise NotAStory(path, "does not exist")
    if not path.is_file():
        raise NotAStory(path, "is not a file")
    if path.stat().st_size == 0:
        raise NotAStory(path, "is empty")


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    db = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,  # the desk's lock lets in one thread at a time
        timeout=5.0,
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


def _use_log(db: sqlite3.Connection) -> None:
    """Write ahead, so that readers of other processes never wait."""
    db.execute("PRAGMA journal_mode = WAL")


def _version(db: sqlite3.Connection, path: Path) -> int:
    """The story version. A file that was being made when the program died is version 0 and empty."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    empty = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0] == 0
    if db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID and not (empty and version == 0):
        raise NotAStory(path, "is a database, but not a story")
    if version > VERSION:
        raise TooNew(path, version, VERSION)
    return version


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file lies at ``path``; None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


def copy_aside(path: Path) -> Path:
    """A private copy of the file and its log, in a folder of its own."""
    folder = Path(tempfile.mkdtemp(prefix="srbwriter-"))
    for suffix in ("", "-wal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            shutil.copyfile(source, folder / source.name)
    return folder


@contextmanager
def _in_words(path: Path) -> Generator[None]:
    """SQLite's errors as the story's own."""
    try:
        yield
    except sqlite3.Error as error:
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in str(error):
            raise StoryError(f"{path}: the story is closed") from error
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise DamagedStory(path, str(error)) from error
        if code in _UNSAVED:
            raise NotSaved(path, str(error), full=code == sqlite3.SQLITE_FULL) from error
        raise


_UNSAVED = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_PERM,
)
