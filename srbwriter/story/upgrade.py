"""Stories of versions before 0.6: read once; their chapters become lines of the text.

Such a file has a table of nodes and one of their bodies; a chapter is a mark on a node. Its undo history is
not read.
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

from srbwriter.story.connection import connect, in_words
from srbwriter.story.edits import Edit
from srbwriter.story.headings import heading_line, is_scene_break
from srbwriter.story.model import DamagedStory, NodeId, State
from srbwriter.story.node import Node
from srbwriter.story.outline import heading_of
from srbwriter.story.spans import edited, encode, plain, text_of
from srbwriter.story.store import Image, checked
from srbwriter.story.tree import Rows

_NODE = (
    "node.id, parent, place, state, author, text, runs, coalesce(recipe, 0), seed, finish, flags, title, note"
)
_MORE = "tags, settings, meta, name, created"
_BOOKMARK, _CHAPTER, _VISITED = 1, 2, 4
_GONE = "head", "touched", "written", "gaps"
"""Values that have no meaning any more."""


def read_old(path: Path) -> Image:
    """Read a story of an older version, with the log beside it. Raises DamagedStory or NotSaved."""
    with tempfile.TemporaryDirectory(prefix="srbwriter-") as folder, in_words(path):
        for logs in (("-wal", "-journal"), ()):  # a log may be of another file
            copy = Path(folder) / f"{len(logs)}.srbw"
            shutil.copyfile(path, copy)
            for suffix in logs:
                with contextlib.suppress(FileNotFoundError):
                    shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
            try:
                with closing(connect(copy, "rw")) as db:
                    if db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok" and logs:
                        continue
                    return _image(db)
            except sqlite3.DatabaseError:
                if not logs:
                    raise
    raise DamagedStory(path, "nothing of it can be read")


def _image(db: sqlite3.Connection) -> Image:
    rows: Rows = {}
    chapters: dict[NodeId, str] = {}
    problem = ""
    try:
        for number, *row in db.execute(
            f"SELECT node.id, {_NODE}, {_MORE} FROM node JOIN body USING (id) ORDER BY node.id"
        ):
            flags = row[10]
            if flags & _CHAPTER:
                chapters[number] = row[11] or ""
            row[10] = bool(flags & _BOOKMARK) | bool(flags & _VISITED) << 1
            row[11:14] = ["" if flags & _CHAPTER else row[11] or "", row[12] or "", row[13] or ""]
            row[14] = without_secondary_keys(row[14])
            rows["node", number] = tuple(row)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        problem = str(error)[:200]
    with contextlib.suppress(sqlite3.Error):
        for number, model, sampling in db.execute("SELECT id, model, sampling FROM recipe"):
            rows["recipe", number] = number, model, sampling
        for key, value in db.execute("SELECT key, json FROM value"):
            if key not in _GONE:
                rows["value", key] = key, value
        for row in db.execute("SELECT day, typed, picked, generated, seconds FROM progress"):
            rows["day", row[0]] = row
    image = checked(Image(rows, version=0), problem)
    if not image.value("uuid"):
        rows["value", "uuid"] = "uuid", json.dumps(str(uuid4()))
    _place_headings(image, chapters)
    return image


def without_secondary_keys(settings: str | None) -> str | None:
    """Return the JSON of settings without fields of lorebook entries that are not used any more."""
    if not settings or '"secondary"' not in settings:
        return settings
    values: dict[str, Any] = json.loads(settings)
    for entry in values.get("lore", []):
        entry.pop("secondary", None)
        entry.pop("logic", None)
    return json.dumps(values)


def _place_headings(image: Image, chapters: dict[NodeId, str]) -> None:
    """Write the heading of each chapter as a line before the paragraph in which its words begin."""
    nodes = {key[1]: row for key, row in image.rows.items() if key[0] == "node" and row is not None}
    added: dict[NodeId, list[tuple[int, str]]] = {}
    for number, title in chapters.items():
        path: list[NodeId] = []
        here: NodeId | None = number
        while here is not None:
            path.insert(0, here)
            here = nodes[here][1]
        begin = sum(len(nodes[n][5]) for n in path[:-1])
        text = "".join(nodes[n][5] for n in path)
        below, last = [n for n in nodes if nodes[n][1] == number and nodes[n][3] == State.LIVING], number
        while not text[begin:].strip() and below:  # its words begin in a node that follows
            last = below[0]
            text += nodes[last][5]
            path.append(last)
            below = [n for n in nodes if nodes[n][1] == last and nodes[n][3] == State.LIVING]
        start = _place_of_heading(text, begin, title)
        if start is None or (not title and not text[:start].strip()):
            continue  # a scene at the very beginning has no break before it
        ending = text[:start]
        blank = "" if not ending.strip() else "\n\n"[min(2, len(ending) - len(ending.rstrip("\n"))) :]
        for n in path:
            size = len(nodes[n][5])
            if start < size or n == path[-1]:
                places = added.setdefault(n, [])
                if all(place != start for place, _ in places):
                    places.append((start, f"{blank}{heading_of(title)}\n\n"))
                break
            start -= size
    for number, places in added.items():
        row = nodes[number]
        node = Node(*row[:5], text=row[5], runs=row[6])
        edits = [Edit(at, at, words) for at, words in sorted(places)]
        spans = edited(node.spans, edits, [plain(edit.text, "writer") for edit in edits])
        image.rows["node", number] = (*row[:5], text_of(spans), encode(spans, row[4]), *row[7:])


def _place_of_heading(text: str, begin: int, title: str) -> int | None:
    """Return where the heading of a chapter belongs, whose words begin at ``begin``; None if there is one."""
    words = len(text) - len(text[begin:].lstrip())
    start = text.rfind("\n", 0, words) + 1
    if words == len(text) and text[start:].strip():
        return words
    if heading_line(text, words) is not None or heading_line(text, start) is not None:
        return None
    return None if not title and is_scene_break(text[start:].partition("\n")[0]) else start
