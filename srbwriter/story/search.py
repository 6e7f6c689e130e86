"""Full-text search over the whole tree. The index is brought up to date before a search.

There are two FTS5 tables. ``search`` holds every text, split into words at spaces. ``search_characters``
holds texts with Chinese, Japanese, Thai, Lao, Khmer or Burmese, split into pairs of characters: any substring
is found, and no dictionary has to split the text and the query alike.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import NamedTuple

from srbwriter.story.connection import IN_LIST
from srbwriter.story.document import Document
from srbwriter.story.migrations import CHARACTER_TOKENIZER
from srbwriter.story.model import Hit, NodeId, NotSaved, OnProgress, State, no_progress
from srbwriter.story.words import well_formed
from srbwriter.unspaced import CHARACTER, pairs, spread

MARK_START, MARK_END = "\x02", "\x03"
_SNIPPET_WORDS, _SNIPPET_CHARACTERS = 16, 40
_RANKED = 3000  # with more hits than this, ranking is slow and says little: the newest come first
_SHORTEST_BEGINNING = 2  # letters; one letter begins too many words
_PART = re.compile(r'"([^"]*)"|(\S+)')
_SEAM = "\x1f"  # separates characters while a snippet is made


class _Term(NamedTuple):
    """A word or phrase of a query; with ``unfinished`` its last word may be the beginning of a word."""

    text: str
    unfinished: bool


def search(document: Document, query: str, limit: int, with_bin: bool) -> list[Hit]:
    """Return nodes that contain all words of ``query`` (the last may be unfinished; ``"…"`` is a phrase)."""
    terms = _terms(query)
    if not terms:
        return []
    if document.read_only is None:
        with suppress(NotSaved):  # with a full disk, what was indexed before can still be searched
            index(document)
    living = document.tree.memory_of_living()
    best: list[tuple[NodeId, float, bool]] = []
    with document.store.reading() as db:
        for node, score in _hits(db, terms):
            if node not in document.tree or document.tree[node].state == State.ABSORBED:
                continue
            alive = living(node)
            if alive or with_bin:
                best.append((node, score, not alive))
                if len(best) == limit:
                    break
    snippets = _snippets(terms, document.store.texts([node for node, _, _ in best]))
    return [Hit(node, snippets.get(node, ""), score, binned) for node, score, binned in best]


def _snippets(terms: Sequence[_Term], texts: dict[NodeId, str]) -> dict[NodeId, str]:
    """Return an excerpt of every text around its matches, from a temporary index, which is faster."""
    cut = partial(spread, mark=_SEAM)
    with closing(sqlite3.connect(":memory:")) as db:
        columns = f'text, size UNINDEXED, tokenize="{CHARACTER_TOKENIZER}"'
        db.execute(f"CREATE VIRTUAL TABLE search USING fts5({columns})")
        for node, text in texts.items():
            size = _SNIPPET_CHARACTERS if CHARACTER.search(text) else _SNIPPET_WORDS
            db.execute("INSERT INTO search (rowid, text, size) VALUES (?, ?, ?)", (node, cut(text), size))
        rows = db.execute(
            "SELECT rowid, snippet(search, 0, ?, ?, '…', size) FROM search WHERE search MATCH ?",
            (MARK_START, MARK_END, _match(terms, cut)),
        )
        return {node: snippet.replace(_SEAM, "") for node, snippet in rows}


def _hits(db: sqlite3.Connection, terms: Sequence[_Term]) -> Iterable[tuple[NodeId, float]]:
    """Return (node, score), best first."""
    queries = [("search_characters", _match(terms, partial(pairs, goes_on=True)))]
    if not any(CHARACTER.search(term.text) for term in terms):
        queries.append(("search", _match(terms, str)))
    newest: set[NodeId] = set()
    for table, match in queries:
        query = f"SELECT rowid FROM {table} WHERE {table} MATCH ? ORDER BY rowid DESC LIMIT ?"
        newest.update(row[0] for row in db.execute(query, (match, _RANKED + 1)))
    if len(newest) > _RANKED:
        return [(node, 0.0) for node in sorted(newest, reverse=True)[: _RANKED + 1]]
    scores: dict[NodeId, float] = {}
    for table, match in queries:
        query = f"SELECT rowid, -bm25({table}) FROM {table} WHERE {table} MATCH ?"
        for node, score in db.execute(query, (match,)):
            scores.setdefault(node, score)
    return sorted(scores.items(), key=lambda hit: (-hit[1], hit[0]))


def _terms(query: str) -> list[_Term]:
    query = well_formed(query).replace("\0", " ")
    texts = [(phrase or word).replace('"', "") for phrase, word in _PART.findall(query)]
    terms = [_Term(text, bool(CHARACTER.match(text[-1]))) for text in texts if any(map(str.isalnum, text))]
    if terms and query[-1] not in ' "' and len(terms[-1].text) >= _SHORTEST_BEGINNING:
        terms[-1] = _Term(terms[-1].text, True)
    return terms


def _match(terms: Iterable[_Term], cut: Callable[[str], str]) -> str:
    """Return ``terms`` as a quoted FTS5 query, in which nothing is an operator."""
    return " ".join(f'"{cut(text)}"' + ("*" if unfinished else "") for text, unfinished in terms)


def index(document: Document, most: int | None = None, progress: OnProgress = no_progress) -> None:
    """Index the nodes that were written since the last call; ``most`` limits their number."""
    with document.store.reading():
        rows = document.store.db.execute("SELECT id FROM unindexed LIMIT ?", (-1 if most is None else most,))
        waiting = [row[0] for row in rows]
    if not waiting:
        return
    with document.change():
        db = document.store.db
        for start in range(0, len(waiting), 500):
            progress(start / len(waiting))
            chunk = json.dumps(waiting[start : start + 500])
            for table, key in (("search", "rowid"), ("search_characters", "rowid"), ("unindexed", "id")):
                db.execute(f"DELETE FROM {table} WHERE {key} {IN_LIST}", (chunk,))
            take_in(db, f"id {IN_LIST}", (chunk,))


def take_in(db: sqlite3.Connection, where: str = "1", values: Sequence[str] = ()) -> None:
    """Add the texts selected by ``where`` to the index, which must not contain them yet."""
    where = f"text <> '' AND {where}"
    db.execute(f"INSERT INTO search (rowid, text) SELECT id, text FROM body WHERE {where}", values)
    for node, text in db.execute(f"SELECT id, text FROM body WHERE {where}", values):
        if CHARACTER.search(text):
            db.execute("INSERT INTO search_characters (rowid, text) VALUES (?, ?)", (node, pairs(text)))
