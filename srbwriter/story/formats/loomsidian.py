"""Loomsidian (the Obsidian plugin cosmicoptima/loom): a note's exported state, or the plugin's data file."""

from __future__ import annotations

import re
from itertools import count

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Loose, arrange, read_time
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import (
    Author,
    DraftNode,
    JsonValue,
    Marks,
    StoryDraft,
    as_object,
)

NAME = "loomsidian"

_ESCAPED = re.compile(r"\\([<\[])")
_AUTHORS: dict[str, Author] = {"user": "writer", "human": "writer", "ai": "model", "model": "model"}


def matches(document: Document) -> bool:
    notes = as_object(document.object.get("state")).values()
    return _is_note(document.object) or any(_is_note(note) for note in notes)


def _is_note(value: JsonValue) -> bool:
    fields = as_object(value)
    return isinstance(fields.get("nodes"), dict | list) and bool({"current", "hoisted"} & set(fields))


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.raw("nodes") is not None:
        return arrange(_notes_nodes(whole, ""), _current(whole))
    notes = whole.good_entries("state", needed=True)
    several = len(notes) > 1
    loose: list[Loose] = []
    for path, note in notes:
        loose += _apart(_notes_nodes(note, path if several else ""), {item.node.id for item in loose})
    draft = arrange(loose, next(filter(None, (_current(note) for _, note in notes)), None))
    draft.title = notes[0][0].removesuffix(".md") if len(notes) == 1 else ""
    return draft


def _current(note: Cursor) -> str | None:
    current = note.raw("current")
    return current if isinstance(current, str) else None


def _notes_nodes(note: Cursor, title: str) -> list[Loose]:
    if isinstance(note.raw("nodes"), list):
        members = [(cursor.ident("id"), cursor) for cursor in note.good_objects("nodes")]
    else:
        members = list(note.good_entries("nodes", needed=True))
    loose: list[Loose] = []
    for node_id, cursor in members:
        if node_id is None:
            cursor.add_notice("expected an id; it is given one", "id")
        loose.append(Loose(_node(node_id or "", cursor, title), cursor))
    return loose


def _apart(note: list[Loose], taken: set[str]) -> list[Loose]:
    """The nodes of a note; with ids of their own where another note, copied perhaps, has some of them."""
    ids = {item.node.id for item in note}
    if ids & taken:
        number = next(number for number in count(2) if not {f"{one}-{number}" for one in ids} & taken)
        for node in (item.node for item in note):
            node.id = f"{node.id}-{number}"
            node.parent_id = f"{node.parent_id}-{number}" if node.parent_id in ids else node.parent_id
    return note


def _node(node_id: str, cursor: Cursor, title: str) -> DraftNode:
    parent_id = cursor.link("parentId")
    author = _AUTHORS.get(str(cursor.raw("author")).lower())
    return DraftNode(
        node_id,
        parent_id,
        text=_ESCAPED.sub(r"\1", cursor.good_text("value" if cursor.raw("text") is None else "text")),
        author=author or "imported",
        marks=Marks(
            bookmark=cursor.flag("bookmarked"),
            visited=not cursor.flag("unread"),
            title=title if parent_id is None else "",
        ),
        created=read_time(cursor.raw("createdAt")),
    )


FORMAT = Format(NAME, "Loomsidian note (Obsidian)", ".json", matches, read)
