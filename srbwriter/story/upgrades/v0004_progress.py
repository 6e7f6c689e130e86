"""Words by day and the log of sittings."""

from __future__ import annotations

from sqlite3 import Connection


def upgrade(db: Connection) -> None:
    db.execute("""
        CREATE TABLE progress (
            day TEXT PRIMARY KEY, typed INTEGER NOT NULL, picked INTEGER NOT NULL,
            generated INTEGER NOT NULL, seconds REAL NOT NULL
        ) WITHOUT ROWID""")
    db.execute("""
        CREATE TABLE sitting (
            id INTEGER PRIMARY KEY, began REAL NOT NULL, ended REAL NOT NULL, seconds REAL NOT NULL,
            typed INTEGER NOT NULL, picked INTEGER NOT NULL, generated INTEGER NOT NULL
        )""")
