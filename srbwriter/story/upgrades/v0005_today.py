"""Which words of a node are of the day: those that were there before, and takes that wait to be picked."""

from __future__ import annotations

from sqlite3 import Connection

_VISITED = 4


def upgrade(db: Connection) -> None:
    db.execute("""
        CREATE TABLE today (
            id INTEGER PRIMARY KEY, day TEXT NOT NULL, old INTEGER NOT NULL, taken INTEGER NOT NULL
        )""")
    db.execute(
        "INSERT INTO today SELECT id, '', 0, 0 FROM node WHERE author = 'model' AND flags & ? = 0",
        (_VISITED,),
    )
