"""Reading what can be read of a damaged story. The original is copied and never opened for writing.

Rows are read in ranges that are halved where they fail, so one bad page costs only what stood on it.
Node numbers have no gaps, so what is missing is known exactly. Knows tables, not verbs.
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from srbwriter.story.migrations import APPLICATION_ID
from srbwriter.story.search import take_in
from srbwriter.story.store import MAGIC, Body, Store, copy_aside
from srbwriter.story.tree import VISITED, Entry
from srbwriter.story.types import ROOT, Damage, NodeId, NotAStory, State, numbers
from srbwriter.story.words import count

_SCHEMA = b"CREATE TABLE node"
_MOST = 2**31  # ids above this are noise from a bad page

Row = tuple[Any, ...]


def recover(path: Path, problem: str) -> tuple[Store, Damage]:
    """A private, read-only story with everything that could be read, and what could not.

    Raises NotAStory if nothing about the file looks like a story.
    """
    if not _looks_like_one(path):
        raise NotAStory(path, "is not a story file")
    folder = copy_aside(path)
    broken = folder / path.name
    _mend_header(broken)
    found = _Found(broken)
    fresh = Path(tempfile.mkdtemp(dir=folder)) / path.name
    store = Store.create(fresh)
    damage = _rebuild(store, found, problem)
    return Store(path, store.db, writable=False, temp=folder), damage


def _looks_like_one(path: Path) -> bool:
    head = path.read_bytes()[: 1 << 20]
    return APPLICATION_ID.to_bytes(4, "big") == head[68:72] or _SCHEMA in head


def _mend_header(path: Path) -> None:
    """Give the file a header that is one, and that claims no more pages than there are."""
    with path.open("r+b") as file:
        head = bytearray(file.read(100))
        if not head.startswith(MAGIC):
            head = bytearray(_sound_header())
        size = int.from_bytes(head[16:18], "big")
        size = 65536 if size == 1 else size  # as SQLite writes its largest page
        there = path.stat().st_size // size
        if int.from_bytes(head[28:32], "big") > there or head[32:36] > there.to_bytes(4, "big"):
            head[28:32] = there.to_bytes(4, "big")
            head[32:40] = bytes(8)  # no free pages
            head[92:96] = head[24:28]  # so that the size is believed
        file.seek(0)
        file.write(head)


def _sound_header() -> bytes:
    """The header of a new story, in a size that is always too large."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sound"
        Store.create(path).close()
        head = bytearray(path.read_bytes()[:100])
    head[28:32] = b"\xff" * 4
    return bytes(head)


class _Found:
    """Every row that can still be read."""

    def __init__(self, path: Path) -> None:
        self.other: list[str] = []
        self._db = sqlite3.connect(path, isolation_level=None)
        try:
            self._db.execute("PRAGMA cell_size_check = ON")
            self.entries = {row[0]: Entry._make(row) for row in self._rows("node", ", ".join(Entry._fields))}
            self.bodies = {
                row[0]: Body(*row[1:])
                for row in self._rows("body", "id, text, runs, recipe, seed, finish, settings, meta, name")
                if isinstance(row[1], str)
            }
            self.copies = {
                row[0]: row[1] for row in self._rows("search_content", "id, c0") if isinstance(row[1], str)
            }
            self.recipes = list(self._rows("recipe", "id, model, sampling"))
            self.values = self._values()
            self._history()
        finally:
            self._db.close()

    def _rows(self, table: str, columns: str) -> Iterator[Row]:
        last = self._last(table)
        waiting = [(1, last)]
        while waiting:
            start, stop = waiting.pop()
            if start > stop:
                continue
            try:
                rows = self._db.execute(
                    f"SELECT {columns} FROM {table} WHERE id BETWEEN ? AND ?", (start, stop)
                ).fetchall()
                yield from (row for row in rows if isinstance(row[0], int) and start <= row[0] <= stop)
            except sqlite3.Error:
                if start < stop:
                    middle = (start + stop) // 2
                    waiting += [(middle + 1, stop), (start, middle)]

    def _last(self, table: str) -> int:
        """The highest id; the file's size bounds it where that cannot be read."""
        for query in (f"SELECT max(id) FROM {table}", "SELECT max(id) FROM node", "SELECT max(id) FROM body"):
            try:
                last = self._db.execute(query).fetchone()[0]
            except sqlite3.Error:
                continue
            if isinstance(last, int) and 0 < last < _MOST:
                return last
        try:
            return int(self._db.execute("PRAGMA page_count").fetchone()[0]) * 64
        except sqlite3.Error:
            return 0

    def _values(self) -> list[Row]:
        try:
            return self._db.execute("SELECT key, json FROM value").fetchall()
        except sqlite3.Error:
            self.other.append("the title and the place of the writer are lost")
            return []

    def _history(self) -> None:
        try:
            self._db.execute("SELECT count(*), sum(length(changes)) FROM action").fetchone()
        except sqlite3.Error:
            self.other.append("part of the undo history is lost")


def _rebuild(store: Store, found: _Found, problem: str) -> Damage:
    known = found.entries.keys() | found.bodies.keys() | found.copies.keys()
    last = max(known, default=ROOT)
    missing = tuple(n for n in range(1, last + 1) if n not in known and n != ROOT)
    lost: list[NodeId] = []
    displaced: list[NodeId] = []
    characters = 0
    with store.transaction():
        store.db.execute("DELETE FROM value")
        for key, text in found.values:
            store.db.execute("INSERT OR REPLACE INTO value VALUES (?, ?)", (key, text))
        store.db.executemany("INSERT OR IGNORE INTO recipe VALUES (?, ?, ?)", found.recipes)
        for node in sorted(known | {ROOT}):
            body = found.bodies.get(node) or Body(found.copies.get(node, ""))
            entry = found.entries.get(node)
            if entry is not None and entry.chars > len(body.text):
                lost.append(node)
                characters += entry.chars - len(body.text)
            if node != ROOT and (entry is None or not _hangs(found.entries, entry, known)):
                displaced.append(node)
                entry = _below_root(node, entry)
            store.put_entries([_measured(entry or _root(), body.text)])
            store.put_body(node, body)
        take_in(store.db)
        if not any(key == "current" for key, _ in found.values):
            store.put_value("current", _last_read(found))
    copied = found.copies.keys() - found.bodies.keys()
    if copied:
        found.other.append(f"the text of nodes {numbers(sorted(copied))} is from the search index")
    return Damage(problem, len(known), missing, tuple(lost), characters, tuple(displaced), tuple(found.other))


def _last_read(found: _Found) -> NodeId:
    """Where the writer may have been: at the newest node that he had read."""
    read = [e.id for e in found.entries.values() if e.state == State.LIVING and e.flags & VISITED]
    return max(read, default=ROOT)


def _hangs(entries: dict[NodeId, Entry], entry: Entry, known: set[NodeId]) -> bool:
    """Whether ``entry`` has a parent; a ring of parents is broken at its lowest number."""
    parent = entry.parent
    if parent is None or parent not in known:
        return False
    seen = {entry.id}
    while parent is not None and parent in entries and parent not in seen:
        seen.add(parent)
        if len(seen) > 10_000:  # a very long path, not a ring: rings are made by a few bad rows
            return True
        parent = entries[parent].parent
    return not (parent == entry.id and entry.id == min(seen))


def _below_root(node: NodeId, entry: Entry | None) -> Entry:
    if entry is not None:
        return entry._replace(parent=ROOT, place=node)
    return _root()._replace(id=node, parent=ROOT, place=node, author="imported")


def _root() -> Entry:
    return Entry(ROOT, None, 0, State.LIVING, "writer", 0, 0, 0, VISITED, 0, None, None, None, 0.0)


def _measured(entry: Entry, text: str) -> Entry:
    words = count(text)
    return entry._replace(chars=len(text), words=words.words, edges=words.edges)
