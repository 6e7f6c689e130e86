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
from uuid import uuid4

from msgspec import convert

from srbwriter.story.model import NodeId, Progress
from srbwriter.story.node import Node
from srbwriter.story.outline import heading_at, heading_line, is_scene_break
from srbwriter.story.spans import Edit, edited
from srbwriter.story.tree import Rows

OLD = b"SQLite format 3\0"
"""How the files of versions before 8 begin."""

_NODES = """
    SELECT node.id, parent, place, state, author, text, runs, coalesce(model, ''), coalesce(sampling, '{}'),
        seed, coalesce(finish, ''), flags & 1 > 0, flags & 4 > 0, coalesce(title, ''), coalesce(note, ''),
        coalesce(tags, ''), coalesce(settings, '{}'), coalesce(meta, '{}'), coalesce(created, 0.0), flags & 2
    FROM node JOIN body USING (id) LEFT JOIN recipe ON recipe.id = body.recipe ORDER BY node.id"""


def copy_old(path: Path, target: Path, logs: tuple[str, ...] = ("-wal", "-journal")) -> None:
    """Copy a story of an older version, with the logs beside it. Raises OSError."""
    for suffix in ("", *logs):
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}{suffix}", f"{target}{suffix}")


def read_old(path: Path) -> Rows:
    """Read a story of an older version: nothing, if it is damaged. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix="srbwriter-") as folder:
        for logs in (("-wal", "-journal"), ()):  # a log may be of another file
            copy_old(path, copy := Path(folder) / f"{len(logs)}.srbw", logs)
            with suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as db:
                if db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                    return _rows(db)
    return {}


def _rows(db: sqlite3.Connection) -> Rows:
    nodes: dict[NodeId, Node] = {}
    chapters: dict[NodeId, str] = {}
    for *values, is_chapter in db.execute(_NODES):
        for place in (8, 16, 17):  # sampling, settings, meta
            values[place] = json.loads(values[place])
        values[15] = values[15].split("\n") if values[15] else []
        values[9] = values[9] % 2**64 if values[9] is not None else None
        node = nodes[values[0]] = convert(values, Node, strict=False)
        if is_chapter:
            chapters[node.id], node.title = node.title, ""
    place_headings(nodes, chapters)
    rows: Rows = {("value", "uuid"): str(uuid4())} | {("node", n): node for n, node in nodes.items()}
    values = db.execute("SELECT key, json FROM value WHERE key NOT IN ('head', 'touched', 'written', 'gaps')")
    rows |= {("value", key): json.loads(value) for key, value in values}
    days = db.execute("SELECT day, typed + picked, seconds FROM progress")
    return rows | {("day", day): Progress(*done) for day, *done in days}


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
