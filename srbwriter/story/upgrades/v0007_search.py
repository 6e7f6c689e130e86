"""Scripts without spaces: an index of their characters beside that of words, and their words counted anew."""

from __future__ import annotations

import re
from sqlite3 import Connection

from srbwriter.story.words import count
from srbwriter.unspaced import CHARACTER, MARKS, pairs

_MARKS = re.sub("(.)-(.)", lambda ends: "".join(map(chr, range(ord(ends[1]), ord(ends[2]) + 1))), MARKS)
TOKENIZER = f"unicode61 remove_diacritics 2 tokenchars '{_MARKS}'"


def upgrade(db: Connection) -> None:
    db.execute(f'CREATE VIRTUAL TABLE search_characters USING fts5(text, tokenize="{TOKENIZER}")')
    for node, text in db.execute("SELECT id, text FROM body WHERE text <> ''"):
        if CHARACTER.search(text):
            db.execute("INSERT INTO search_characters (rowid, text) VALUES (?, ?)", (node, pairs(text)))
            _count_anew(db, node, text)


def _count_anew(db: Connection, node: int, text: str) -> None:
    was = db.execute("SELECT words FROM node WHERE id = ?", (node,)).fetchone()
    new = count(text)
    db.execute("UPDATE node SET words = ?, edges = ? WHERE id = ?", (new.words, new.edges, node))
    if was and was[0]:  # what was a part of the node's words stays that part
        db.execute(
            "UPDATE today SET old = old * ?1 / ?2, taken = taken * ?1 / ?2 WHERE id = ?3",
            (new.words, was[0], node),
        )
