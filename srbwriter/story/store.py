"""The tables of a story file: read it whole, write it whole, and fold changed rows into it.

Every transaction writes a random token, by which a file is known that another program has put in its place.
A node's row has a checksum of its text. Of a damaged file every readable row is kept.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from srbwriter import paths
from srbwriter.story.connection import NO_STORY, connect, in_words
from srbwriter.story.model import (
    AUTHORS,
    ROOT,
    Damage,
    DamagedStory,
    JsonValue,
    NotAStory,
    NotSaved,
    State,
    TooNew,
)
from srbwriter.story.node import COLUMNS, row_sum
from srbwriter.story.tree import Rows

SUFFIX = ".srbw"
VERSION = 8
APPLICATION_ID = 0x73726277  # "srbw"

_TABLES = {
    "node": COLUMNS,
    "value": "key, json",
    "recipe": "id, model, sampling",
    "action": "id, data",
    "day": "day, typed, picked, generated, seconds",
}
_SCHEMA = f"""
    PRAGMA application_id = {APPLICATION_ID};
    PRAGMA user_version = {VERSION};
    CREATE TABLE node (
        id INTEGER PRIMARY KEY, parent INTEGER, place INTEGER NOT NULL, state INTEGER NOT NULL,
        author TEXT NOT NULL, text TEXT NOT NULL, runs BLOB, recipe INTEGER NOT NULL, seed INTEGER,
        finish TEXT NOT NULL, flags INTEGER NOT NULL, title TEXT NOT NULL, note TEXT NOT NULL,
        tags TEXT NOT NULL, settings TEXT, meta TEXT, name TEXT, created REAL NOT NULL, sum INTEGER NOT NULL
    );
    CREATE TABLE value (key TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID;
    CREATE TABLE recipe (id INTEGER PRIMARY KEY, model TEXT NOT NULL, sampling TEXT NOT NULL);
    CREATE TABLE action (id INTEGER PRIMARY KEY, data BLOB NOT NULL);
    CREATE TABLE day (
        day TEXT PRIMARY KEY, typed INTEGER NOT NULL, picked INTEGER NOT NULL, generated INTEGER NOT NULL,
        seconds REAL NOT NULL
    ) WITHOUT ROWID;
"""


class Replaced(Exception):
    """The file holds another token: another program has replaced it."""


@dataclass(slots=True)
class Image:
    """What a file holds: rows by (table, key), its token, and what could not be read of it."""

    rows: Rows = field(default_factory=dict[tuple[str, Any], "tuple[Any, ...] | None"])
    token: str = ""
    version: int = VERSION
    damage: Damage | None = None

    def value(self, key: str, default: JsonValue = None) -> JsonValue:
        """Return a story-wide value."""
        row = self.rows.get(("value", key))
        with contextlib.suppress(ValueError):
            return json.loads(row[1]) if row is not None else default
        return default


# -- write -------------------------------------------------------------------------------------------


def put_rows(db: sqlite3.Connection, rows: Rows) -> None:
    """Write rows, and delete those that are gone."""
    for table, columns in _TABLES.items():
        some = [row for (name, _), row in rows.items() if name == table and row is not None]
        if table == "node":
            some = [(*row, row_sum(row)) for row in some]
        marks = ", ".join("?" * (columns.count(",") + 1))
        db.executemany(f"INSERT OR REPLACE INTO {table} ({columns}) VALUES ({marks})", some)
        gone = [(key,) for (name, key), row in rows.items() if name == table and row is None]
        db.executemany(f"DELETE FROM {table} WHERE {columns.split(',')[0]} = ?", gone)


def _put_token(db: sqlite3.Connection, token: str) -> None:
    db.execute("INSERT OR REPLACE INTO value VALUES ('token', ?)", (json.dumps(token),))


def write_whole(path: Path, rows: Rows, token: str) -> None:
    """Write a new story file durably. Raises OSError or sqlite3.Error, and leaves no file then."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, paths.OWN_FILE))
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA synchronous = OFF")  # one sync at the end suffices
            db.execute("PRAGMA journal_mode = OFF")
            db.executescript(_SCHEMA)
            db.execute("BEGIN")
            put_rows(db, rows)
            _put_token(db, token)
            db.execute("COMMIT")
        with path.open("rb") as file:
            os.fsync(file.fileno())
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def fold(path: Path, rows: Rows, token: str, before: str) -> None:
    """Write ``rows`` in one transaction into the file whose token is ``before``.

    Raises Replaced for another file, sqlite3.Error or OSError; then the file has not changed.
    """
    with closing(connect(path, "rw", timeout=10.0)) as db:
        db.execute("PRAGMA synchronous = FULL")
        db.execute("BEGIN IMMEDIATE")
        try:
            row = db.execute("SELECT json FROM value WHERE key = 'token'").fetchone()
        except sqlite3.Error as error:
            raise Replaced from error
        if row is None or json.loads(row[0]) != before:
            raise Replaced
        put_rows(db, rows)
        _put_token(db, token)
        db.execute("COMMIT")


# -- read --------------------------------------------------------------------------------------------


def looks_like_story(path: Path) -> bool:
    """Whether a file that is no database any more may have been a story: by its name and its pages."""
    size = path.stat().st_size
    return path.suffix == SUFFIX and size > 4096 and size % 4096 == 0


def token_of(path: Path) -> str | None:
    """Return the token of a file as it is, without what SQLite left beside it; None if unreadable."""
    try:
        with closing(connect(path, "ro&immutable=1")) as db:
            row = db.execute("SELECT json FROM value WHERE key = 'token'").fetchone()
            return str(json.loads(row[0])) if row is not None else ""
    except (sqlite3.Error, ValueError, UnicodeDecodeError):
        return None


@contextlib.contextmanager
def opened(path: Path) -> Generator[sqlite3.Connection]:
    """Connect for reading, in a private copy if SQLite cannot roll back a transaction in place.

    Raises NotSaved without room for the copy, or DamagedStory.
    """
    with in_words(path), contextlib.ExitStack() as stack:
        try:
            db = connect(path, "ro")
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="srbwriter-")))
            for suffix in ("", "-journal", "-wal"):
                if (source := Path(f"{path}{suffix}")).exists():
                    shutil.copyfile(source, folder / source.name)
            db = connect(folder / path.name, "rw")
        stack.enter_context(closing(db))
        yield db


def version_of(db: sqlite3.Connection, path: Path) -> int:
    """Return the version of a story file. Raises NotAStory, TooNew or DamagedStory."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
    if (
        db.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID
        and not {"node", "value"} <= tables
    ):
        raise NotAStory(path, "is a database, but not a story")
    if version > VERSION + 1000 or version < 1:
        raise DamagedStory(path, f"it cannot be of version {version}")
    if version > VERSION:
        raise TooNew(path, version, VERSION)
    return version


def read(path: Path) -> Image:
    """Read a story of this version, also a damaged one. Raises NotAStory, TooNew, or NotSaved."""
    problem = ""
    try:
        with opened(path) as db:
            version = version_of(db, path)
            if version < VERSION:
                return Image(version=version)
            rows: Rows = {}
            for table, columns in _TABLES.items():
                for row in db.execute(f"SELECT {columns} FROM {table}"):
                    rows[table, row[0]] = row
    except DamagedStory as error:
        problem, rows = error.problem, _readable(path)
        if not rows:
            code = getattr(error.__cause__, "sqlite_errorcode", 0)
            if code == sqlite3.SQLITE_NOTADB and not looks_like_story(path):
                raise NotAStory(path, NO_STORY) from error
    image = Image(rows)
    if not problem and sum(table == "node" for table, _ in rows) < int(image.value("count", 0) or 0):
        problem = "nodes are lost"
        rows |= _readable(path)
    image.token = str(image.value("token", ""))
    return checked(image, problem)


def _readable(path: Path) -> Rows:
    """Return every row of a damaged file that can be read."""
    rows: Rows = {}
    with contextlib.suppress(sqlite3.Error, DamagedStory, NotSaved), opened(path) as db:
        db.text_factory = lambda data: data.decode("utf-8", "replace")  # type: ignore[arg-type]
        for table, columns in _TABLES.items():
            if table in ("value", "day"):
                with contextlib.suppress(sqlite3.Error):
                    for row in db.execute(f"SELECT {columns} FROM {table}"):
                        rows[table, row[0]] = row
                continue
            last = 4 * (path.stat().st_size // 100) + 1000
            with contextlib.suppress(sqlite3.Error):
                last = int(db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0)
            waiting, tries, again = [(1, last)], 20_000, True
            while waiting and tries:
                first, end = waiting.pop()
                try:
                    some = db.execute(f"SELECT {columns} FROM {table} WHERE id BETWEEN ? AND ?", (first, end))
                    rows |= {(table, row[0]): row for row in some.fetchall()}
                except sqlite3.Error:
                    tries -= 1
                    middle = (first + end) // 2
                    waiting += [(middle + 1, end), (first, middle)] if first < end else []
                if not waiting and again:  # a broken page may hide those behind it
                    waiting = [(n, n) for n in range(1, min(last, tries) + 1) if (table, n) not in rows]
                    again = False
    return rows


def checked(image: Image, problem: str = "") -> Image:
    """Return ``image`` with a note of its damage: rows that are not as written, and parents that are lost."""
    nodes = {key: row for (table, key), row in image.rows.items() if table == "node" and row is not None}
    doubtful: set[int] = set()
    for key, row in nodes.items():
        if not _fits(row):
            row = _mended(row)
            doubtful.add(key)
        elif len(row) > 18 and row_sum(row) != row[18]:
            doubtful.add(key)
        nodes[key] = row
    if ROOT not in nodes:
        problem = problem or ("its tree is lost" if nodes else "")
        nodes[ROOT] = (
            ROOT,
            None,
            0,
            0,
            "writer",
            "",
            None,
            0,
            None,
            "",
            2,
            "",
            "",
            "",
            None,
            None,
            None,
            0.0,
        )
    lost = {row[1] for key, row in nodes.items() if key != ROOT} - nodes.keys()
    loose = [key for key, row in nodes.items() if key != ROOT and row[1] in lost] + _circling(nodes, lost)
    for key in loose:
        nodes[key] = (key, ROOT, *nodes[key][2:])
    for key, row in nodes.items():
        image.rows["node", key] = row[:18]
    wanted = image.value("count", 0)
    if isinstance(wanted, int) and len(nodes) < wanted and not problem:
        problem = "nodes are lost"
    if doubtful and not problem:
        problem = "some text is not as it was written"
    if loose and not problem:
        problem = "what nodes hang on is lost"
    if problem:
        missing = tuple(sorted(number for number in lost if isinstance(number, int)))
        image.damage = Damage(
            problem, len(nodes), missing, (), 0, tuple(sorted(loose)), tuple(sorted(doubtful))
        )
    return image


def _circling(nodes: dict[int, tuple[Any, ...]], lost: Iterable[int]) -> list[int]:
    """Return a node of each circle of parents."""
    fine, found = {ROOT, *lost}, list[int]()
    for start in nodes:
        walked = dict[int, None]()
        here = start
        while here not in fine and here not in walked:
            walked[here] = None
            here = nodes[here][1]
        if here in walked:
            found.append(here)
        fine.update(walked)
    return found


def _fits(row: tuple[Any, ...]) -> bool:
    """Whether the values of a node's row are of the right types."""
    _, parent, place, state, author, text, runs, recipe, seed, finish, flags, title, note, tags, *rest = row
    settings, meta, name, created = rest[:4]
    return (
        isinstance(parent, int | None) and isinstance(place, int) and state in (0, 1, 2)
        and author in AUTHORS and isinstance(runs, bytes | None) and isinstance(recipe, int)
        and isinstance(seed, int | None) and isinstance(flags, int)
        and all(isinstance(words, str) for words in (text, finish, title, note, tags))
        and all(words is None or isinstance(words, str) for words in (settings, meta, name))
        and isinstance(created, float | int) and math.isfinite(created)
        and all(words is None or _is_object(words) for words in (settings, meta))
    )  # fmt: skip


def _is_object(words: str) -> bool:
    try:
        return isinstance(json.loads(words), dict)
    except (ValueError, RecursionError):
        return False


def _mended(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a node's row with empty values for those that it cannot hold."""

    def words(value: Any) -> str:
        return value if isinstance(value, str) else ""

    def number(value: Any) -> int:
        return value if isinstance(value, int) else 0

    author = row[4] if row[4] in AUTHORS else "imported"
    state = row[3] if row[3] in (0, 1, 2) else int(State.LIVING)
    return (
        row[0], row[1] if isinstance(row[1], int) else ROOT, number(row[2]), state, author, words(row[5]),
        row[6] if isinstance(row[6], bytes) else None, number(row[7]), None, words(row[9]), number(row[10]),
        words(row[11]), words(row[12]), words(row[13]), row[14] if _is_object(words(row[14])) else None,
        row[15] if _is_object(words(row[15])) else None, words(row[16]) or None,
        row[17] if isinstance(row[17], float) and math.isfinite(row[17]) else 0.0,
    )  # fmt: skip
