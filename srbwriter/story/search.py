"""Full-text search over the whole tree. The index is brought up to date before it is asked.

Knows SQLite's FTS5 and nothing of verbs.
"""

from __future__ import annotations

import re
import sqlite3

from srbwriter.story.desk import Desk
from srbwriter.story.types import Hit, NodeId, State

MARK_START, MARK_END = "\x02", "\x03"
_SNIPPET_WORDS = 16
_RANKED = 3000  # of very common words only this many places are ranked, the newest
_PART = re.compile(r'"([^"]*)"|(\S+)')


def search(desk: Desk, query: str, limit: int, with_bin: bool) -> list[Hit]:
    """Places that hold all words of ``query`` (the last may be unfinished; ``"…"`` is a phrase)."""
    match = _match(query)
    if not match:
        return []
    if desk.read_only is None:
        index(desk)
    with desk.store.reading() as db:
        rows = db.execute(
            "SELECT rowid, -bm25(search) AS score FROM search WHERE search MATCH ? AND rowid >= ? "
            "ORDER BY score DESC, rowid",
            (match, _oldest_ranked(db, match)),
        )
        best: list[tuple[NodeId, float]] = []
        for node, score in rows:
            if node in desk.tree and (with_bin or desk.tree.living(node)) and not _absorbed(desk, node):
                best.append((node, score))
                if len(best) == limit:
                    break
        return [
            Hit(node, _snippet(db, match, node), score, not desk.tree.living(node)) for node, score in best
        ]


def _absorbed(desk: Desk, node: NodeId) -> bool:
    return desk.tree[node].state == State.ABSORBED


def _oldest_ranked(db: sqlite3.Connection, match: str) -> NodeId:
    row = db.execute(
        "SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT 1 OFFSET ?", (match, _RANKED)
    ).fetchone()
    return 0 if row is None else int(row[0])


def _snippet(db: sqlite3.Connection, match: str, node: NodeId) -> str:
    row = db.execute(
        f"SELECT snippet(search, 0, ?, ?, '…', {_SNIPPET_WORDS}) FROM search "
        "WHERE search MATCH ? AND rowid = ?",
        (MARK_START, MARK_END, match, node),
    ).fetchone()
    return str(row[0])


def _match(query: str) -> str:
    """``query`` in the language of FTS5, with nothing of it read as an operator."""
    terms: list[str] = []
    for phrase, word in _PART.findall(query):
        text = (phrase or word).replace('"', "")
        if any(c.isalnum() for c in text):
            terms.append(f'"{text}"')
    if terms and not query.rstrip().endswith('"') and query[-1:].strip():
        terms[-1] += "*"
    return " ".join(terms)


def index(desk: Desk, most: int | None = None) -> None:
    """Take in what was written since the last time."""
    db = desk.store.db
    with desk.store.reading():
        rows = db.execute("SELECT id FROM unindexed LIMIT ?", (-1 if most is None else most,))
        waiting = [row[0] for row in rows]
    if not waiting:
        return
    with desk.change():
        for start in range(0, len(waiting), 500):
            chunk = waiting[start : start + 500]
            marks = ",".join("?" * len(chunk))
            db.execute(f"DELETE FROM search WHERE rowid IN ({marks})", chunk)
            db.execute(
                f"INSERT INTO search (rowid, text) SELECT id, text FROM body WHERE id IN ({marks})"
                " AND text <> ''",
                chunk,
            )
            db.execute(f"DELETE FROM unindexed WHERE id IN ({marks})", chunk)
