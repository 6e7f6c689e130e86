"""Stories of versions before 0.6: read once; their chapters become lines of the text.

Such a file is a database of SQLite with a table of nodes and one of their bodies; a chapter is a mark on a
node. Its undo history is not read.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from srbwriter.story.model import DamagedStory, NodeId, NotAStory, Progress
from srbwriter.story.node import Node
from srbwriter.story.outline import heading_at, heading_line, is_scene_break
from srbwriter.story.spans import Edit, edited
from srbwriter.story.tree import Rows

OLD = b"SQLite format 3\0"
"""How the files of versions before 8 begin."""

_NODES = """
    SELECT node.id, parent, place, state, author, text, runs, model, sampling, seed, finish, title, note,
        tags, settings, meta, created, flags
    FROM node JOIN body USING (id) LEFT JOIN recipe ON recipe.id = body.recipe ORDER BY node.id"""
_BOOKMARK, _CHAPTER, _VISITED = 1, 2, 4
_GONE = "head", "touched", "written", "gaps"
"""Values that have no meaning any more."""


def read_old(path: Path) -> Rows:
    """Read a story of an older version, with the log beside it. Raises NotAStory, DamagedStory or OSError."""
    with tempfile.TemporaryDirectory(prefix="srbwriter-") as folder:
        for logs in (("-wal", "-journal"), ()):  # a log may be of another file
            copy = Path(folder) / f"{len(logs)}.srbw"
            for suffix in ("", *logs):
                with suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as db:
                if db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
                    if not {"node", "value"} <= tables:
                        raise NotAStory(path, "is a database, but not a story")
                    return _rows(db)
    raise DamagedStory(path, "nothing of it can be read")


def _rows(db: sqlite3.Connection) -> Rows:
    nodes: dict[NodeId, Node] = {}
    chapters: dict[NodeId, str] = {}
    for row in db.execute(_NODES):
        model, sampling, seed, finish, title, note, tags, settings, meta, created, flags = row[7:]
        if flags & _CHAPTER:
            chapters[row[0]], title = title or "", ""
        values: list[Any] = [
            *row[:7], model or "", json.loads(sampling or "{}"),
            seed % 2**64 if seed is not None else None, finish or "", bool(flags & _BOOKMARK),
            bool(flags & _VISITED), title or "", note or "", tuple(tags.split("\n")) if tags else (),
            json.loads(settings or "{}"), json.loads(meta or "{}"), created or 0.0,
        ]  # fmt: skip
        nodes[row[0]] = Node(*values)
    place_headings(nodes, chapters)
    rows: Rows = {("node", number): node for number, node in nodes.items()} | {
        ("value", "uuid"): str(uuid4())
    }
    for key, value in db.execute("SELECT key, json FROM value"):
        if key not in _GONE:
            rows["value", key] = json.loads(value)
    for day, grown, seconds in db.execute("SELECT day, typed + picked, seconds FROM progress"):
        rows["day", day] = Progress(grown, seconds)
    return rows


def place_headings(nodes: dict[NodeId, Node], chapters: dict[NodeId, str]) -> None:
    """Write the heading of each chapter as a line before the paragraph in which its words begin."""
    for number, title in chapters.items():
        path = [nodes[number]]
        while path[0].parent is not None:
            path.insert(0, nodes[path[0].parent])
        text = "".join(node.text for node in path)
        at, _, heading = heading_at(text, len(text) - len(path[-1].text.lstrip()), title)
        there = text[at:].partition("\n")[0]
        if heading_line(there) or (not title and (is_scene_break(there) or not text[:at].strip())):
            continue  # it has one, or is a scene at the very beginning, which has no break before it
        for node in path:
            if at < len(node.text) or node is path[-1]:
                node.spans = edited(node.spans, [Edit(at, at, heading)])
                break
            at -= len(node.text)
