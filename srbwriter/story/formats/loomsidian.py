"""Loomsidian (the Obsidian plugin cosmicoptima/loom): a note's exported state, or the plugin's data file."""

from __future__ import annotations

import json
import re
from itertools import count

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Loose, arrange, time_of, with_foreign, without_secrets
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import (
    Author,
    DraftNode,
    JsonObject,
    JsonValue,
    Marks,
    StoryDraft,
    as_object,
    foreign,
    keep_foreign,
    reading_order,
)

NAME = "loomsidian"

_ESCAPED = re.compile(r"\\([<\[])")
_TO_ESCAPE = re.compile(r"([<\[])")
_AUTHORS: dict[str, Author] = {"user": "writer", "human": "writer", "ai": "model", "model": "model"}


def matches(document: Document) -> bool:
    notes = as_object(document.object.get("state")).values()
    return _is_note(document.object) or any(_is_note(note) for note in notes)


def _is_note(value: JsonValue) -> bool:
    fields = as_object(value)
    return isinstance(fields.get("nodes"), dict | list) and bool({"current", "hoisted"} & set(fields))


def read(document: Document) -> StoryDraft:
    whole = top(document)
    if whole.peek("nodes") is not None:
        draft = arrange(_notes_nodes(whole, ""), _current(whole))
        keep_foreign(draft.meta, NAME, _beside_nodes(whole, draft))
        return draft
    notes = whole.good_entries("state", needed=True)
    several = len(notes) > 1
    loose: list[Loose] = []
    for path, note in notes:
        loose += _apart(_notes_nodes(note, path if several else ""), {item.node.id for item in loose})
    draft = arrange(loose, next(filter(None, (_current(note) for _, note in notes)), None))
    draft.title = notes[0][0].removesuffix(".md") if len(notes) == 1 else ""
    rest = without_secrets(whole.rest(), whole)
    if several:
        rest["state"] = {path: note.rest() for path, note in notes}
    elif notes:
        rest |= _beside_nodes(notes[0][1], draft)
    keep_foreign(draft.meta, NAME, rest)
    return draft


def _current(note: Cursor) -> str | None:
    current = note.peek("current")
    return current if isinstance(current, str) else None


def _beside_nodes(note: Cursor, draft: StoryDraft) -> JsonObject:
    """What a note says beside its nodes; where it is too, if that is not a node."""
    if note.peek("current") == draft.current_id:
        note.skip("current")
    return note.rest()


def _notes_nodes(note: Cursor, title: str) -> list[Loose]:
    if isinstance(note.peek("nodes"), list):
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
    author = _AUTHORS.get(str(cursor.peek("author")).lower())
    if author and cursor.peek("author") == str(cursor.peek("author")).lower():
        cursor.skip("author")
    node = DraftNode(
        node_id,
        parent_id,
        text=_ESCAPED.sub(r"\1", cursor.good_text("value" if cursor.peek("text") is None else "text")),
        author=author or "imported",
        marks=Marks(
            bookmark=cursor.flag("bookmarked"),
            visited=not cursor.flag("unread"),
            title=title if parent_id is None else "",
        ),
        created=time_of(cursor, "createdAt"),
    )
    return with_foreign(node, NAME, cursor.rest())


def write(draft: StoryDraft) -> bytes:
    kept = foreign(draft.meta, NAME)
    note: JsonObject = {
        "hoisted": kept.get("hoisted", []),
        "searchTerm": "",
        "generating": False,
        "current": draft.current_id,
        "nodes": {node.id: _fields(node) for node in reading_order(draft)},
    }
    return json.dumps(note, ensure_ascii=False).encode("utf-8", "replace")


def _fields(node: DraftNode) -> JsonObject:
    return {
        "collapsed": False,
        "searchResultState": None,
        **foreign(node.meta, NAME),
        "text": _TO_ESCAPE.sub(r"\\\1", node.text),
        "parentId": node.parent_id,
        "unread": not node.marks.visited,
        "bookmarked": node.marks.bookmark,
    }


FORMAT = Format(NAME, "Loomsidian note (Obsidian)", ".json", matches, read, write)
