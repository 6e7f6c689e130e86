"""Numbered steps that upgrade a story file; each runs in its own transaction.

A released step is never changed; add another one instead. Step N upgrades a file from ``user_version`` N-1 to
N.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from sqlite3 import Connection

from srbwriter.story.shapes import body_sum, row_sum
from srbwriter.story.words import count
from srbwriter.unspaced import CHARACTER, MARKS, pairs

APPLICATION_ID = 0x73726277  # "srbw"
TOKENIZER = "unicode61 remove_diacritics 2"
_MARKS = re.sub("(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), MARKS)
CHARACTER_TOKENIZER = f"{TOKENIZER} tokenchars '{_MARKS}'"


def _tree(db: Connection) -> None:
    """Create the nodes: a light table that is read whole at opening, and a table of their text."""
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    db.execute("CREATE TABLE value (key TEXT PRIMARY KEY, json TEXT NOT NULL) WITHOUT ROWID")
    db.execute("""
        CREATE TABLE node (
            id INTEGER PRIMARY KEY, parent INTEGER, place INTEGER NOT NULL, state INTEGER NOT NULL,
            author TEXT NOT NULL, chars INTEGER NOT NULL, words INTEGER NOT NULL, edges INTEGER NOT NULL,
            flags INTEGER NOT NULL, rating INTEGER NOT NULL, tags TEXT, note TEXT, title TEXT,
            created REAL NOT NULL
        )""")
    db.execute("""
        CREATE TABLE body (
            id INTEGER PRIMARY KEY, text TEXT NOT NULL, runs BLOB, recipe INTEGER, seed INTEGER,
            finish TEXT NOT NULL DEFAULT '', settings TEXT, meta TEXT, name TEXT
        )""")
    db.execute("""
        CREATE TABLE recipe (
            id INTEGER PRIMARY KEY, model TEXT NOT NULL, sampling TEXT NOT NULL, UNIQUE (model, sampling)
        )""")


def _history(db: Connection) -> None:
    """Create the undo history: a tree of actions, none of which is ever deleted."""
    db.execute("""
        CREATE TABLE action (
            id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, verb TEXT NOT NULL, node INTEGER NOT NULL,
            at REAL NOT NULL, was INTEGER NOT NULL, became INTEGER NOT NULL, typed INTEGER NOT NULL,
            picked INTEGER NOT NULL, touched INTEGER NOT NULL, changes TEXT NOT NULL
        )""")
    db.execute("CREATE INDEX action_parent ON action (parent)")


def _search(db: Connection) -> None:
    """Create the full-text index, which has its own copy of the text, and the list of nodes to index."""
    db.execute(f"CREATE VIRTUAL TABLE search USING fts5(text, tokenize='{TOKENIZER}')")
    db.execute("CREATE TABLE unindexed (id INTEGER PRIMARY KEY)")
    db.execute("INSERT INTO unindexed SELECT id FROM body WHERE text <> ''")


def _progress(db: Connection) -> None:
    """Create the table of words by day."""
    db.execute("""
        CREATE TABLE progress (
            day TEXT PRIMARY KEY, typed INTEGER NOT NULL, picked INTEGER NOT NULL,
            generated INTEGER NOT NULL, seconds REAL NOT NULL
        ) WITHOUT ROWID""")


def _today(db: Connection) -> None:
    """Create the table for today's words: older words of a node, and attempts not yet picked."""
    db.execute("""
        CREATE TABLE today (
            id INTEGER PRIMARY KEY, day TEXT NOT NULL, old INTEGER NOT NULL, taken INTEGER NOT NULL
        )""")
    visited = 4
    db.execute(
        "INSERT INTO today SELECT id, '', 0, 0 FROM node WHERE author = 'model' AND flags & ? = 0",
        (visited,),
    )


def gaps_in(ids: Iterable[int]) -> list[tuple[int, int]]:
    """Return the missing numbers between ``ids``, as ranges (first, last)."""
    return [(a + 1, b - 1) for a, b in pairwise(sorted(ids)) if b - a > 1]


_NODE = "id, parent, place, state, author, chars, words, edges, flags, rating, tags, note, title, created"
_BODY = "id, text, runs, recipe, seed, finish, settings, meta, name"
_ACTION = "id, parent, verb, node, at, was, became, typed, picked, touched, changes"


def _sums(db: Connection) -> None:
    """Add checksums of rows, so that a changed bit is found, and the node numbers that were never used."""
    for table, columns in ("value", "key, json"), ("node", _NODE), ("body", _BODY), ("action", _ACTION):
        db.create_function("total", -1, body_sum if table == "body" else row_sum)
        db.execute(f"ALTER TABLE {table} ADD COLUMN sum INTEGER")
        db.execute(f"UPDATE {table} SET sum = total({columns})")
    gaps = json.dumps(gaps_in(row[0] for row in db.execute("SELECT id FROM node")))
    db.execute("INSERT INTO value VALUES ('gaps', ?, ?)", (gaps, row_sum("gaps", gaps)))


def _characters(db: Connection) -> None:
    """Index the characters of scripts without spaces, and count their words again."""
    db.execute(f'CREATE VIRTUAL TABLE search_characters USING fts5(text, tokenize="{CHARACTER_TOKENIZER}")')
    db.create_function("total", -1, row_sum)
    for node, text in db.execute("SELECT id, text FROM body WHERE text <> ''"):
        if CHARACTER.search(text):
            db.execute("INSERT INTO search_characters (rowid, text) VALUES (?, ?)", (node, pairs(text)))
            words = count(text)
            db.execute("UPDATE node SET words = ?, edges = ? WHERE id = ?", (words.words, words.edges, node))
            db.execute(f"UPDATE node SET sum = total({_NODE}) WHERE id = ?", (node,))


SEARCHED, SUMMED = 3, 6
"""The first versions with a search index, and with checksums of rows."""

STEPS: Sequence[Callable[[Connection], None]] = (
    _tree, _history, _search, _progress, _today, _sums, _characters
)  # fmt: skip

VERSION = len(STEPS)


def migrate(db: Connection, steps: Sequence[Callable[[Connection], None]] = STEPS) -> None:
    """Run the steps that the file lacks. ``db`` must be in autocommit mode."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    for number, step in enumerate(steps[version:], start=version + 1):
        db.execute("BEGIN IMMEDIATE")
        try:
            step(db)
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
