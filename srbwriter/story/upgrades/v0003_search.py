"""Full-text search: an index with its own copy of the text, and what it has still to take in."""

from __future__ import annotations

from sqlite3 import Connection


def upgrade(db: Connection) -> None:
    db.execute("CREATE VIRTUAL TABLE search USING fts5(text, tokenize='unicode61 remove_diacritics 2')")
    db.execute("CREATE TABLE unindexed (id INTEGER PRIMARY KEY)")
    db.execute("INSERT INTO unindexed SELECT id FROM body WHERE text <> ''")
