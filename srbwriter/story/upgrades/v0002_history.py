"""Undo: a tree of actions; nothing in it is ever dropped."""

from __future__ import annotations

from sqlite3 import Connection


def upgrade(db: Connection) -> None:
    db.execute("""
        CREATE TABLE action (
            id INTEGER PRIMARY KEY, parent INTEGER NOT NULL, verb TEXT NOT NULL, node INTEGER NOT NULL,
            at REAL NOT NULL, was INTEGER NOT NULL, became INTEGER NOT NULL, typed INTEGER NOT NULL,
            picked INTEGER NOT NULL, touched INTEGER NOT NULL, changes TEXT NOT NULL
        )""")
    db.execute("CREATE INDEX action_parent ON action (parent)")
