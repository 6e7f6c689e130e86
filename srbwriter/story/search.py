"""Full-text search over the whole tree. The index is brought up to date before it is asked.

Knows SQLite's FTS5 and nothing of verbs.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing, suppress

from srbwriter.story.desk import Desk
from srbwriter.story.migrations import TOKENIZER
from srbwriter.story.types import Hit, NodeId, NotSaved, Progress, State, untold
from srbwriter.story.words import well_formed

MARK_START, MARK_END = "\x02", "\x03"
_SNIPPET_WORDS = 16
_RANKED = 3000  # with more hits than this, rank says little and costs much: the newest come first
_SHORTEST_BEGINNING = 2  # letters; one letter begins too many words
_PART = re.compile(r'"([^"]*)"|(\S+)')


def search(desk: Desk, query: str, limit: int, with_bin: bool) -> list[Hit]:
    """Places that hold all words of ``query`` (the last may be unfinished; ``"…"`` is a phrase)."""
    match = _match(query)
    if not match:
        return []
    if desk.read_only is None:
        with suppress(NotSaved):  # a full disk is no reason not to search what was taken in before
            index(desk)
    living = desk.tree.memory_of_living()
    best: list[tuple[NodeId, float, bool]] = []
    with desk.store.reading() as db:
        for node, score in _hits(db, match):
            if node not in desk.tree or desk.tree[node].state == State.ABSORBED:
                continue
            alive = living(node)
            if alive or with_bin:
                best.append((node, score, not alive))
                if len(best) == limit:
                    break
    snippets = _snippets(match, desk.store.texts([node for node, _, _ in best]))
    return [Hit(node, snippets.get(node, ""), score, binned) for node, score, binned in best]


def _snippets(match: str, texts: dict[NodeId, str]) -> dict[NodeId, str]:
    """A piece of every text around what matches. A small index of its own is quicker than the large one."""
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE VIRTUAL TABLE search USING fts5(text, tokenize='{TOKENIZER}')")
        db.executemany("INSERT INTO search (rowid, text) VALUES (?, ?)", texts.items())
        rows = db.execute(
            f"SELECT rowid, snippet(search, 0, ?, ?, '…', {_SNIPPET_WORDS}) FROM search WHERE search MATCH ?",
            (MARK_START, MARK_END, match),
        )
        return dict(rows.fetchall())


def _hits(db: sqlite3.Connection, match: str) -> Iterable[tuple[NodeId, float]]:
    """(node, score), best first."""
    newest = db.execute(
        "SELECT rowid, 0.0 FROM search WHERE search MATCH ? ORDER BY rowid DESC LIMIT ?", (match, _RANKED + 1)
    ).fetchall()
    if len(newest) > _RANKED:
        return newest
    return db.execute(
        "SELECT rowid, -bm25(search) AS score FROM search WHERE search MATCH ? ORDER BY score DESC, rowid",
        (match,),
    )


def _match(query: str) -> str:
    """``query`` in the language of FTS5, with nothing of it read as an operator."""
    terms: list[str] = []
    query = well_formed(query).replace("\0", " ")
    for phrase, word in _PART.findall(query):
        text = (phrase or word).replace('"', "")
        if any(c.isalnum() for c in text):
            terms.append(f'"{text}"')
    if terms and query[-1] not in ' "' and len(terms[-1]) >= _SHORTEST_BEGINNING + 2:
        terms[-1] += "*"
    return " ".join(terms)


def index(desk: Desk, most: int | None = None, progress: Progress = untold) -> None:
    """Take in what was written since the last time."""
    db = desk.store.db
    with desk.store.reading():
        rows = db.execute("SELECT id FROM unindexed LIMIT ?", (-1 if most is None else most,))
        waiting = [row[0] for row in rows]
    if not waiting:
        return
    with desk.change():
        for start in range(0, len(waiting), 500):
            progress(start / len(waiting))
            chunk = waiting[start : start + 500]
            marks = ",".join("?" * len(chunk))
            db.execute(f"DELETE FROM search WHERE rowid IN ({marks})", chunk)
            db.execute(
                f"INSERT INTO search (rowid, text) SELECT id, text FROM body WHERE id IN ({marks})"
                " AND text <> ''",
                chunk,
            )
            db.execute(f"DELETE FROM unindexed WHERE id IN ({marks})", chunk)
