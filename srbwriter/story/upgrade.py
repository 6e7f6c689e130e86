"""Stories of versions before 0.6: read once; their chapters become lines of the text.

Such a file is a database of SQLite with a table of nodes and one of their bodies; a chapter is a mark on a
node. Its undo history is not read.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import uuid4

from srbwriter.story.disk import saving
from srbwriter.story.edits import Edit
from srbwriter.story.model import DamagedStory, NodeId, NotAStory, Progress, State
from srbwriter.story.node import Node
from srbwriter.story.outline import heading_line, heading_of, is_scene_break
from srbwriter.story.spans import edited, plain
from srbwriter.story.store import VERSION, Image, read, summary_of

_NODES = """
    SELECT node.id, parent, place, state, author, text, runs, model, sampling, seed, finish, title, note,
        tags, settings, meta, created, flags
    FROM node JOIN body USING (id) LEFT JOIN recipe ON recipe.id = body.recipe ORDER BY node.id"""
_BOOKMARK, _CHAPTER, _VISITED = 1, 2, 4
_GONE = "head", "touched", "written", "gaps"
"""Values that have no meaning any more."""


def read_story(path: Path, *, torn: bool | None = None) -> Image:
    """Read a story of any version. Changes nothing; ``torn`` as for :func:`~.store.read`.

    Raises NotAStory, TooNew, NotSaved without room for a private copy of an old one, or DamagedStory.
    """
    with saving(path):
        image = read(path, torn=torn)
        return image if image.version == VERSION else read_old(path)


def read_old(path: Path) -> Image:
    """Read a story of an older version, with the log beside it. Raises NotAStory, DamagedStory or OSError."""
    with tempfile.TemporaryDirectory(prefix="srbwriter-") as folder:
        for logs in (("-wal", "-journal"), ()):  # a log may be of another file
            copy = Path(folder) / f"{len(logs)}.srbw"
            shutil.copyfile(path, copy)
            for suffix in logs:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            with contextlib.suppress(sqlite3.Error), closing(sqlite3.connect(copy)) as db:
                if db.execute("PRAGMA quick_check(1)").fetchone()[0] == "ok":
                    tables = {row[0] for row in db.execute("SELECT name FROM sqlite_schema")}
                    if not {"node", "value"} <= tables:
                        raise NotAStory(path, "is a database, but not a story")
                    return _image(db)
    raise DamagedStory(path, "nothing of it can be read")


def _image(db: sqlite3.Connection) -> Image:
    image = Image(version=7)
    nodes: dict[NodeId, Node] = {}
    chapters: dict[NodeId, str] = {}
    for row in db.execute(_NODES):
        model, sampling, seed, finish, title, note, tags, settings, meta, created, flags = row[7:]
        if flags & _CHAPTER:
            chapters[row[0]], title = title or "", ""
        values: list[Any] = [
            *row[:7], model or "", json.loads(sampling or "{}"),
            seed % 2**64 if seed is not None else None, finish or "", bool(flags & _BOOKMARK),
            bool(flags & _VISITED), title or "", note or "", tags or "", json.loads(settings or "{}"),
            json.loads(meta or "{}"), created or 0.0,
        ]  # fmt: skip
        nodes[row[0]] = Node(*values)
    for key, value in db.execute("SELECT key, json FROM value"):
        if key not in _GONE:
            image.rows["value", key] = json.loads(value)
    for day, grown, seconds in db.execute("SELECT day, typed + picked, seconds FROM progress"):
        image.rows["day", day] = Progress(grown, seconds)
    image.rows.setdefault(("value", "uuid"), str(uuid4()))
    place_headings(nodes, chapters)
    image.rows |= {("node", number): node for number, node in nodes.items()}
    image.summary = summary_of(image.rows)
    return image


def place_headings(nodes: dict[NodeId, Node], chapters: dict[NodeId, str]) -> None:
    """Write the heading of each chapter as a line before the paragraph in which its words begin."""
    added: dict[NodeId, dict[int, str]] = {}
    for number, title in chapters.items():
        path = [nodes[number]]
        while path[0].parent is not None:
            path.insert(0, nodes[path[0].parent])
        text = "".join(node.text for node in path)
        begin = len(text) - len(path[-1].text)
        while not text[begin:].strip():  # its words begin in a node that follows
            below = (n for n in nodes.values() if n.parent == path[-1].id and n.state == State.LIVING)
            if (following := next(below, None)) is None:
                break
            path.append(following)
            text += following.text
        start = _place_of_heading(text, begin, title)
        if start is None or (not title and not text[:start].strip()):
            continue  # a scene at the very beginning has no break before it
        ending = text[:start]
        blank = "" if not ending.strip() else "\n\n"[min(2, len(ending) - len(ending.rstrip("\n"))) :]
        for node in path:
            if start < len(node.text) or node is path[-1]:
                added.setdefault(node.id, {}).setdefault(start, f"{blank}{heading_of(title)}\n\n")
                break
            start -= len(node.text)
    for number, places in added.items():
        node = nodes[number]
        edits = [Edit(at, at, words) for at, words in sorted(places.items())]
        node.spans = edited(node.spans, edits, [plain(edit.text, "writer") for edit in edits])


def _place_of_heading(text: str, begin: int, title: str) -> int | None:
    """Return where the heading of a chapter belongs, whose words begin at ``begin``; None if there is one."""
    words = len(text) - len(text[begin:].lstrip())
    start = text.rfind("\n", 0, words) + 1
    if words == len(text) and text[start:].strip():
        return words
    if heading_line(text, words) is not None or heading_line(text, start) is not None:
        return None
    return None if not title and is_scene_break(text[start:].partition("\n")[0]) else start
