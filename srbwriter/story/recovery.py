"""Recovery of a damaged story into a new one. The original is copied and never opened.

Rows are read in ranges that are halved where they fail, so one bad page costs only the rows on it; a row that
fails alone is read column by column, and its text up to the first unreadable part. Every node without a
matching checksum is reported as doubtful, and every missing node by its number. No text is invented: a
truncated text is shorter.
"""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from srbwriter.story.connection import MAGIC, NO_STORY, connect, copy_aside
from srbwriter.story.lock import Note
from srbwriter.story.migrations import (
    APPLICATION_ID,
    STEPS,
    SUMMED,
    gaps_in,
    migrate,
)
from srbwriter.story.model import (
    AUTHORS,
    ROOT,
    Damage,
    JsonValue,
    NodeId,
    NotAStory,
    State,
    numbers,
)
from srbwriter.story.search import take_in
from srbwriter.story.shapes import (
    UNREADABLE,
    body_fits,
    body_sum,
    entry_fits,
    is_object,
    row_sum,
    settings_fit,
    text_sum,
    value_fits,
)
from srbwriter.story.store import BODY, ENTRY, Body, Store
from srbwriter.story.tree import SETTINGS, VISITED, Entry
from srbwriter.story.words import count

_PAGE = 4096  # bytes; SQLite's default
_MOST = 2**31  # ids above this are noise from a bad page
_PIECE = 512  # bytes read at once of a truncated text
_SCHEMA = b"CREATE TABLE node"
_ESCAPED = "".join(map(chr, range(0xDC80, 0xDD00)))  # bytes that are not UTF-8
_CHARS = Entry._fields.index("chars")
_MOST_LOST = 10**7  # nodes; a higher number of the last node is noise
_DAY = (str, int, int, int, float)

Row = tuple[Any, ...]


def recover(path: Path, problem: str, note: Note) -> tuple[Store, Damage]:
    """Return a private, read-only story of all readable rows, and a report of the damage.

    ``note`` was found beside the file. Raises NotAStory if the file shows no sign of a story, or NotSaved
    without room for a copy.
    """
    folder = copy_aside(path)
    try:
        broken = folder / path.name
        marked = _mend_header(broken)
        with closing(_connected(broken)) as db:
            found = _Remains(db, broken.stat().st_size)
        if not marked and not found.proved:
            raise NotAStory(path, NO_STORY)
        store = Store.create(Path(tempfile.mkdtemp(dir=folder)) / path.name)
        damage = _rebuild(store, found, problem, note)
        store.close()
        return Store(path, connect(store.path, "rw"), writable=False, temp=folder), damage
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


# -- a file that SQLite opens ------------------------------------------------------------------------


def _mend_header(path: Path) -> bool:
    """Give the file the header of a story; return whether it had one, or the table that only a story has."""
    with path.open("rb") as file:
        start = file.read(1 << 20)
    head = _first_page()[:100]
    if start.startswith(MAGIC):  # keep the counters and the version, which differ between stories
        head = head[:24] + start[24:28] + head[28:40] + start[40:44] + head[44:60] + start[60:64] + head[64:]
    _begin(path, head)
    return start[68:72] == APPLICATION_ID.to_bytes(4, "big") or _SCHEMA in start


def _begin(path: Path, head: bytes) -> None:
    """Write ``head`` to the beginning of the file, with its number of pages and an empty free list."""
    pages = -(-path.stat().st_size // _PAGE)
    with path.open("r+b") as file:
        file.truncate(pages * _PAGE)
        file.write(head[:28] + pages.to_bytes(4, "big") + bytes(8) + head[40:92] + head[24:28] + head[96:])


def _first_page() -> bytes:
    """Return the first page of a new story of the first version with checksums, whose schema fits on it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "new"
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("PRAGMA journal_mode = WAL")
            migrate(db, STEPS[:SUMMED])
        return path.read_bytes()[:_PAGE]


def _connected(path: Path) -> sqlite3.Connection:
    """Connect to ``path``. A broken schema is replaced by that of a new story, which begins alike."""
    db = _connect(path)
    version = _all(db, "PRAGMA user_version") or [(0,)]
    more = ", sum" if version[0][0] >= SUMMED else ""
    tables = ("value", "key, json"), ("node", ENTRY), ("body", BODY)
    if None in [_all(db, f"SELECT {columns}{more} FROM {table} LIMIT 0") for table, columns in tables]:
        db.close()
        _begin(path, _first_page())
        db = _connect(path)
    return db


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, isolation_level=None)
    db.text_factory = _decoded
    _all(db, "PRAGMA writable_schema = ON")  # an invalid table must not hide the others
    _all(db, "PRAGMA cell_size_check = ON")
    return db


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _all(db: sqlite3.Connection, query: str) -> list[Row] | None:
    """Return the rows of a query; None if they cannot be read."""
    with suppress(sqlite3.Error, MemoryError, *UNREADABLE):
        return db.execute(query).fetchall()
    return None


# -- what is found -----------------------------------------------------------------------------------


class _Remains:
    """All readable rows, and which of them have matching checksums (*sound* ones)."""

    def __init__(self, db: sqlite3.Connection, size: int) -> None:
        self._db = db
        self._pages = size // _PAGE
        self.other: list[str] = []
        total = "sum" if _all(db, "SELECT sum FROM node LIMIT 0") is not None else "NULL"
        sums = [_all(db, f"SELECT 1 FROM {table} WHERE sum > 0 LIMIT 1") for table in ("node", "body")]
        self.summed = total == "sum" and any(rows != [] for rows in sums)
        self.values = self._values(total)
        self.commits, self.last = self._written()
        self.nodes = {row[0]: row for row in self._rows("node", f"{ENTRY}, {total}")}
        self.bodies = {row[0]: row for row in self._rows("body", f"{BODY}, {total}")}
        self._copies = {row[0]: row[1] for row in self._rows("search_content", "id, c0")}
        self._searched = self._has("search_content")
        self._unindexed = {row[0] for row in _all(db, "SELECT id FROM unindexed") or ()}
        self.sound_nodes = {node for node, row in self.nodes.items() if _adds_up(row_sum, entry_fits, row)}
        self.sound_bodies = {node for node, row in self.bodies.items() if _adds_up(body_sum, body_fits, row)}
        self.proved = bool(self.sound_nodes or self.sound_bodies) or any(map(self._agrees, self.bodies))
        self.recipes = self._rows("recipe", "id, model, sampling")
        self.days = self._days()
        if self._has("action") and _all(db, "SELECT id FROM action LIMIT 1") != []:
            self.other.append("the undo history is lost")

    def _has(self, table: str) -> bool:
        """Whether the schema of this story has ``table``, or cannot be read."""
        return _all(self._db, f"SELECT 1 FROM sqlite_schema WHERE name = '{table}'") != []

    def _days(self) -> list[Row]:
        """Return the valid rows of the days of writing."""
        rows = _all(self._db, "SELECT * FROM progress")
        fits = [row for row in rows or () if all(map(isinstance, row, _DAY))]
        sound = [row for row in fits if row[0] == _clean(row[0])]
        if self._has("progress") and (rows is None or len(sound) < len(rows)):
            self.other.append("part of the table of progress is lost")
        return sound

    def _rows(self, table: str, columns: str) -> list[Row]:
        found: list[Row] = []
        last, tries = self._extent(table)
        waiting = [(1, last)]
        while waiting and tries > 0:
            start, stop = waiting.pop()
            rows = _all(self._db, f"SELECT {columns} FROM {table} WHERE id BETWEEN {start} AND {stop}")
            if rows is not None:
                found += [row for row in rows if isinstance(row[0], int) and start <= row[0] <= stop]
                continue
            tries -= 1
            if start < stop:
                middle = (start + stop) // 2
                waiting += [(middle + 1, stop), (start, middle)]
            elif row := self._row(table, columns, start):
                found.append(row)
        return found

    def _extent(self, table: str) -> tuple[int, int]:
        """Return the highest id that a row can have, and the number of failures after which reading stops."""
        ends = [_all(self._db, f"SELECT {end}(id) FROM {table}") for end in ("min", "max")]
        tries = 1000 + 50 * self._pages if any(ends) else 100 + self._pages
        if self.last and table in ("node", "body", "search_content"):
            return self.last, tries
        others = [_all(self._db, f"SELECT max(id) FROM {other}") for other in ("node", "body")]
        for rows in (ends[1], *others):
            if rows and isinstance(rows[0][0], int) and 0 < rows[0][0] < _MOST:
                return rows[0][0], tries
        return 100 * self._pages, tries

    def _row(self, table: str, columns: str, node: int) -> Row | None:
        """Return the readable cells of a row that cannot be read as a whole; None if there are none."""
        if not _all(self._db, f"SELECT id FROM {table} WHERE id = {node}"):
            return None
        cells: list[Any] = []
        for column in columns.split(", ")[1:]:
            rows = _all(self._db, f"SELECT {column} FROM {table} WHERE id = {node}")
            cells.append(rows[0][0] if rows else self._beginning(node) if column == "text" else None)
        return (node, *cells) if any(cell is not None for cell in cells) else None

    def _beginning(self, node: int) -> str | None:
        """Return a text up to its first unreadable part; None if that is empty."""
        data = b""
        blobs = self._db.blobopen
        with suppress(sqlite3.Error, *UNREADABLE), blobs("body", "text", node, readonly=True) as blob:
            while piece := blob.read(_PIECE):
                data += piece
        return _decoded(data) or None

    def _values(self, total: str) -> dict[str, JsonValue]:
        """Return the sound story-wide values, and the title even if it is not."""
        found: dict[str, JsonValue] = {}
        for row in _all(self._db, f"SELECT key, json, {total} FROM value") or ():
            with suppress(*UNREADABLE):
                key, value = row[0], json.loads(_clean(row[1]))
                sound = not self.summed or key == "title" or _adds_up(row_sum, bool, row)
                if sound and key == _clean(key) and value_fits(key, value):
                    found[key] = value
        if not {"title", "current"} <= found.keys():
            self.other.append("the title and the place of the writer are lost")
        return found

    def _written(self) -> tuple[int, NodeId]:
        """Return the numbers of the last transaction and of the last node; 0 if they are lost."""
        with suppress(*UNREADABLE):
            commits, last = self.values["written"]
            return int(commits), int(last) if 0 <= int(last) < _MOST_LOST else 0
        return 0, 0

    @property
    def known(self) -> set[NodeId]:
        """The nodes of which anything can be read."""
        found = self.nodes.keys() | self.bodies.keys() | self._copies.keys()
        return {node for node in found if not self.last or node <= self.last} | {ROOT}

    def missing(self, known: set[NodeId]) -> set[NodeId]:
        """Return the nodes of which nothing can be read."""
        last = self.last or max(known)
        if not self.last:
            self.other.append("how many nodes there were is not known")
            if last > 1000 + 4 * len(known):  # imported numbers may be far apart
                return set()
        gaps = sorted((first, end) for first, end in self.values.get("gaps", ()))
        found = set[NodeId]()
        for start, stop in set(gaps_in([*known, last + 1])) - set(gaps):
            for first, end in gaps:
                if start <= first <= end <= stop:
                    found.update(range(start, first))
                    start = end + 1
            found.update(range(start, stop + 1))
        return found

    def lost_log(self, note: Note) -> bool:
        """Whether transactions counted by ``note`` are missing."""
        ours = self.values.get("uuid", note.story) == note.story
        return self.summed and ours and self.commits < note.commits

    def sound(self, node: NodeId) -> bool:
        """Whether both checksums of a node match, or the story has no checksums."""
        return not self.summed or (node in self.sound_nodes and node in self.sound_bodies)

    def chars(self, node: NodeId) -> int:
        """Return the characters that the text of a node had; 0 if unknown."""
        row = self.nodes.get(node)
        known = row is not None and (node in self.sound_nodes or not self.summed)
        return row[_CHARS] if row and known and isinstance(row[_CHARS], int) else 0

    def text(self, node: NodeId) -> tuple[str, bool]:
        """Return the text of a node, and whether its checksum proves it."""
        row, copy = self.bodies.get(node), self._copies.get(node)
        texts = [text for text in (row[1] if row else None, copy) if isinstance(text, str)]
        chars = self.chars(node)
        if self.summed:
            for text in texts if row and isinstance(row[-1], int) else ():
                with suppress(ValueError):
                    if row and text_sum(node, text) == row[-1] & 0xFFFF_FFFF:
                        return text, True
        elif row and self._agrees(node):
            return row[1], True
        cleaned = [_clean(text) for text in texts]
        return max(cleaned, key=lambda text: (len(text) == chars, len(text)), default=""), False

    def _agrees(self, node: NodeId) -> bool:
        """Whether a text without a checksum agrees with its length and with the copy in the search index."""
        text, copy = self.bodies[node][1], self._copies.get(node)
        if not isinstance(text, str) or text != _clean(text) or len(text) != self.chars(node):
            return False
        return copy == text or not text or node in self._unindexed or not self._searched

    def body(self, node: NodeId, text: str) -> Body:
        """Return the body of a node whose text is ``text``, without invalid fields."""
        row = self.bodies.get(node)
        if row is None:
            return Body(text)
        _, old, runs, recipe, seed, finish, settings, meta, name, _ = row
        if node in self.sound_bodies:
            return Body(*row[1:-1])
        return Body(
            text,
            runs if not self.summed and text == old and isinstance(runs, bytes) else None,
            recipe if isinstance(recipe, int) else None,
            seed if isinstance(seed, int) else None,
            _clean(finish),
            settings if settings_fit(settings) and settings == _clean(settings) else None,
            meta if is_object(meta) and meta == _clean(meta) else None,
            _clean(name) or None,
        )

    def entry(self, node: NodeId) -> Entry:
        """Return the index entry of a node, without invalid fields."""
        row = self.nodes.get(node, (node, *[None] * len(Entry._fields)))
        if node in self.sound_nodes:
            return Entry(*row[:-1])
        _, parent, place, state, author, _, _, _, flags, rating, tags, note, title, created, _ = row
        return Entry(
            node,
            parent if isinstance(parent, int) else None,
            place if isinstance(place, int) else node,
            state if state in list(State) else State.LIVING,
            author if author in AUTHORS else "imported",
            flags=flags & 15 if isinstance(flags, int) else VISITED,
            rating=rating if rating in (-1, 1) else 0,
            tags=_clean(tags) or None,
            note=_clean(note) or None,
            title=_clean(title) or None,
            created=created if isinstance(created, float) and math.isfinite(created) else 0.0,
        )


def _adds_up(total: Callable[..., int], fits: Callable[[Row], bool], row: Row) -> bool:
    with suppress(*UNREADABLE):
        return total(*row[:-1]) == row[-1] and fits(row[:-1])
    return False


def _clean(text: object) -> str:
    """Return a damaged text without the zeros of lost pages and with undecodable bytes replaced."""
    if not isinstance(text, str):
        return ""
    text = text.replace("\0", "").rstrip(_ESCAPED)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# -- a story of it -----------------------------------------------------------------------------------


def _rebuild(store: Store, found: _Remains, problem: str, note: Note) -> Damage:
    known = found.known
    missing, doubtful = found.missing(known), set[NodeId]()
    if found.lost_log(note):
        found.other.append("what was written last is lost with the log that lay beside the file")
        missing |= note.nodes - known
        doubtful |= note.nodes & known
    entries: dict[NodeId, Entry] = {}
    cut: dict[NodeId, int] = {}
    with store.transaction():
        for node in sorted(known):
            text, proved = found.text(node)
            body = found.body(node, text)
            store.put_body(node, body)
            entries[node] = _measured(found.entry(node), body)
            if (lost := found.chars(node) - len(text)) > 0 and not proved:
                cut[node] = lost
            elif not proved or not found.sound(node):
                doubtful.add(node)
        if copied := sorted(doubtful - found.bodies.keys() - {ROOT}):
            found.other.append(f"the text of nodes {numbers(copied)} is from the search index")
        displaced = _hang(entries)
        store.put_entries(entries.values())
        _put_the_rest(store, found, entries)
        with store.reading() as db:
            take_in(db)
    return Damage(
        problem,
        len(known),
        tuple(sorted(missing)),
        tuple(cut),
        sum(cut.values()),
        tuple(sorted(displaced)),
        tuple(sorted(doubtful)),
        tuple(found.other),
    )


def _measured(entry: Entry, body: Body) -> Entry:
    words = count(body.text)
    flags = entry.flags & ~SETTINGS | (SETTINGS if body.settings else 0)
    return entry._replace(chars=len(body.text), words=words.words, edges=words.edges, flags=flags)


def _hang(entries: dict[NodeId, Entry]) -> set[NodeId]:
    """Move nodes without a parent, and the lowest node of every cycle, below the root; return them."""
    below: dict[NodeId | None, list[NodeId]] = {}
    for node, entry in entries.items():
        below.setdefault(entry.parent, []).append(node)
    moved = {node for node, entry in entries.items() if entry.parent not in entries} - {ROOT}
    reached = set[NodeId]()

    def reach(*nodes: NodeId) -> None:
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            if node not in reached:
                reached.add(node)
                waiting += below.get(node, ())

    reach(ROOT, *moved)
    for start in sorted(entries.keys() - reached):
        walked, node = dict[NodeId, int](), start
        while node not in reached and node not in walked:
            walked[node] = len(walked)
            node = entries[node].parent or ROOT
        if node not in reached:
            lowest = min(above for above, step in walked.items() if step >= walked[node])
            moved.add(lowest)
            reach(lowest)
    for node in moved:
        entries[node] = entries[node]._replace(parent=ROOT, place=node)
    entries[ROOT] = entries[ROOT]._replace(parent=None)
    return moved


def _put_the_rest(store: Store, found: _Remains, entries: dict[NodeId, Entry]) -> None:
    for number, model, sampling in found.recipes:
        if is_object(sampling) and sampling == _clean(sampling) and isinstance(model, str):
            recipe = number, _clean(model), sampling
            store.db.execute("INSERT OR IGNORE INTO recipe VALUES (?, ?, ?)", recipe)
    for key, value in found.values.items():
        if key not in ("written", "head", "touched"):
            store.put_value(key, value)
    read = [e.id for e in entries.values() if e.state == State.LIVING and e.flags & VISITED]
    if "current" not in found.values:  # the newest node that was read is the likeliest place of the writer
        store.put_value("current", max(read, default=ROOT))
    store.put_value("gaps", gaps_in(entries))
    store.db.executemany("INSERT OR IGNORE INTO progress VALUES (?, ?, ?, ?, ?)", found.days)
