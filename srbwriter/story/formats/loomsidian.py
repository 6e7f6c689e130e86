"""Loomsidian (the Obsidian plugin cosmicoptima/loom): a note's exported state, or the plugin's data file."""

from __future__ import annotations

import json
import re

from srbwriter.story.draft import (
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
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Loose, arrange, read_time, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document

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
        draft = arrange(_notes_nodes(whole, ""), whole.ident("current"))
        keep_foreign(draft.meta, NAME, whole.rest())
        return draft
    notes = whole.need_entries("state")
    loose = [node for path, note in notes for node in _notes_nodes(note, path if len(notes) > 1 else "")]
    currents = [note.ident("current") for _, note in notes]
    draft = arrange(loose, next((current for current in currents if current), None))
    draft.title = notes[0][0].removesuffix(".md") if len(notes) == 1 else ""
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _notes_nodes(note: Cursor, title: str) -> list[Loose]:
    if isinstance(note.peek("nodes"), list):
        members = [(cursor.ident("id"), cursor) for cursor in note.need_objects("nodes")]
    else:
        members = list(note.need_entries("nodes"))
    loose: list[Loose] = []
    for node_id, cursor in members:
        if node_id is None:
            raise cursor.error("an id", "id")
        loose.append(Loose(_node(node_id, cursor, title), cursor))
    return loose


def _node(node_id: str, cursor: Cursor, title: str) -> DraftNode:
    text = cursor.text("value") if cursor.peek("text") is None else cursor.need_text("text")
    parent_id = cursor.ident("parentId")
    if parent_id is None and cursor.raw("parentId") is not None:
        raise cursor.error("the id of a node, or null", "parentId")
    node = DraftNode(
        node_id,
        parent_id,
        text=_ESCAPED.sub(r"\1", text),
        author=_AUTHORS.get(cursor.text("author").lower(), "imported"),
        marks=Marks(
            bookmark=cursor.flag("bookmarked"),
            visited=not cursor.flag("unread"),
            title=title if parent_id is None else "",
        ),
        created=read_time(cursor.raw("createdAt")),
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
