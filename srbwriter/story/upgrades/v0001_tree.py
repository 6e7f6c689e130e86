"""Nodes: a light table that is read whole at opening, and their text beside it."""

from __future__ import annotations

from sqlite3 import Connection

APPLICATION_ID = 0x73726277  # "srbw"


def upgrade(db: Connection) -> None:
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
