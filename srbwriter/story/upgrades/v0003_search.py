"""Full-text search: an index with its own copy of the text, and what it has still to take in."""

from __future__ import annotations

from sqlite3 import Connection

TOKENIZER = "unicode61 remove_diacritics 2"


def upgrade(db: Connection) -> None:
    db.execute(f"CREATE VIRTUAL TABLE search USING fts5(text, tokenize='{TOKENIZER}')")
    db.execute("CREATE TABLE unindexed (id INTEGER PRIMARY KEY)")
    db.execute("INSERT INTO unindexed SELECT id FROM body WHERE text <> ''")
