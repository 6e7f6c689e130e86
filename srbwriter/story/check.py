"""Checks of a story file: the database, the tree, and the checksum of each row.

Changes neither the file nor the log beside it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

from srbwriter import paths
from srbwriter.story.connection import check_file
from srbwriter.story.lock import Note
from srbwriter.story.migrations import SEARCHED, STEPS, SUMMED, VERSION, migrate
from srbwriter.story.model import ROOT, Damage, DamagedStory, NodeId, numbers
from srbwriter.story.recovery import recover
from srbwriter.story.shapes import action_fits, body_fits, body_sum, entry_fits, row_sum
from srbwriter.story.store import ACTION, BODY, ENTRY, Store
from srbwriter.story.words import count

_ODD = """
    SELECT id, parent, EXISTS (SELECT 1 FROM node AS above WHERE above.id = node.parent) AS hangs FROM node
    WHERE NOT hangs OR parent >= id ORDER BY id"""
"""Nodes without a parent (only the root may be one) or with a higher-numbered one (every cycle has one)."""

_COLUMNS = """
    SELECT found.name, its.name FROM sqlite_schema AS found, pragma_table_info(found.name) AS its
    WHERE found.type = 'table'"""

_INDEXED = """
    SELECT body.id FROM body JOIN search_content USING (id)
    WHERE c0 <> text AND id NOT IN (SELECT id FROM unindexed)"""
"""Nodes whose text differs from the copy of it in the search index."""


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check; a sound story has neither problems nor damage."""

    path: Path
    nodes: int
    problems: tuple[str, ...] = ()
    damage: Damage | None = None

    @property
    def sound(self) -> bool:
        return not self.problems and self.damage is None


def check(path: Path) -> Report:
    """Check the whole file.

    Raises NotAStory, TooNew, or NotSaved without room for a copy of a damaged file.
    """
    path = paths.expanded(path).resolve()
    check_file(path)
    note = Note.read(path)
    try:
        with Store.look(path) as store:
            verify(store, note, thorough=True)
            with store.reading() as db:
                if not store.version:
                    return Report(path, 0)
                problems = tuple(_problems(db, store.version))
                return Report(path, db.execute("SELECT count(*) FROM node").fetchone()[0], problems)
    except DamagedStory as error:
        left, damage = recover(path, error.problem, note)
        left.close()
        return Report(path, damage.read, damage=damage)


def _problems(db: Connection, version: int) -> Iterator[str]:
    """Yield inconsistencies that lose no text."""
    rows = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
    yield from () if rows == ["ok"] else rows
    for node, text, chars, words in db.execute(
        "SELECT id, text, chars, words FROM node JOIN body USING (id) ORDER BY id"
    ):
        if len(text) != chars or count(text).words != words:
            yield f"node {node}: the index says {chars} characters, not {len(text)}"
    if version < SUMMED:
        return
    for row in db.execute(_INDEXED):
        yield f"node {row[0]}: the search index has another text"
    for *row, total in db.execute(f"SELECT {ACTION}, sum FROM action"):
        if not action_fits(tuple(row)) or row_sum(*row) != total:
            yield f"action {row[0]} is not as it was written, and cannot be undone or done again"


def verify(store: Store, note: Note, *, thorough: bool) -> None:
    """Raise DamagedStory if ``store``, opened by :meth:`Store.look`, is damaged.

    ``note`` was found beside it. Every page and every row's checksum are read only if ``thorough``.
    """
    if store.version == 0:  # the program ended while it was creating this story
        return
    with store.reading() as db:
        if store.version < VERSION and _later(db, store.version):
            raise DamagedStory(store.path, f"it is not of version {store.version}, as it says")
        if thorough:
            found = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
            if found != "ok":
                raise DamagedStory(store.path, found.splitlines()[-1])  # SQLite names its own file first
        _shape(db, store.path)
        if thorough:
            if wrong := sorted(_wrong(db, store.version)):
                raise DamagedStory(store.path, f"not as they were written: nodes {numbers(wrong)}")
            if store.version >= SUMMED:
                for row in db.execute("SELECT key FROM value").fetchall():
                    store.value(row[0])
                given = store.numbered()[1] - sum(end - first + 1 for first, end in store.value("gaps", []))
                if db.execute("SELECT count(*) FROM node").fetchone()[0] < given:
                    raise DamagedStory(store.path, "nodes are lost")
    if note.commits > store.numbered()[0] and note.story == store.value("uuid", ""):
        raise DamagedStory(store.path, "what was written last is lost with the log that lay beside it")


def _later(db: Connection, version: int) -> bool:
    """Whether there is a table or a column of a later version."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        migrate(new, STEPS[:version])
        before = set(new.execute(_COLUMNS))
        migrate(new)
        return not (set(new.execute(_COLUMNS)) - before).isdisjoint(db.execute(_COLUMNS))


def _shape(db: Connection, path: Path) -> None:
    """Raise DamagedStory unless every node is below the root."""
    odd = db.execute(_ODD).fetchall()
    if not odd and db.execute("SELECT count(*) FROM body").fetchone()[0]:
        raise DamagedStory(path, "its tree is lost")
    loose = [node for node, _, hangs in odd if not hangs]
    if loose != [ROOT][: len(odd)]:
        lost = [node for node in loose if node != ROOT] or [ROOT]
        raise DamagedStory(path, f"what nodes hang on is lost: {numbers(lost)}")
    fine = {ROOT}
    for node, _, _ in odd:
        walked = set[NodeId]()
        while node not in fine:
            fine.add(node)
            walked.add(node)
            node = db.execute("SELECT parent FROM node WHERE id = ?", (node,)).fetchone()[0]
        if node in walked:
            raise DamagedStory(path, f"node {node} hangs on itself")


def _wrong(db: Connection, version: int) -> set[NodeId]:
    """Return the nodes that were not stored as written, as far as a file of this version can prove it."""
    nodes = {row[0] for row in db.execute("SELECT id FROM node UNION SELECT id FROM body")}
    if version >= SUMMED:
        entries = db.execute(f"SELECT {ENTRY}, sum FROM node")
        fine = {row[0] for *row, total in entries if row_sum(*row) == total and entry_fits(tuple(row))}
        bodies = db.execute(f"SELECT {BODY}, sum FROM body")
        sound = (row[0] for *row, total in bodies if body_sum(*row) == total and body_fits(tuple(row)))
        return nodes - fine.intersection(sound)
    texts = db.execute("SELECT id, text, chars FROM node JOIN body USING (id)")
    fine = {node for node, text, chars in texts if len(text) == chars}
    if version >= SEARCHED:
        fine.difference_update(row[0] for row in db.execute(_INDEXED))
    return nodes - fine
