"""Loom tree JSON (socketteer/loom): nested nodes, old and new, the bare simple form, and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import (
    PYLOOM_TIME,
    ROOT_ID,
    Loose,
    OwnIds,
    arrange,
    read_time,
    write_time,
)
from srbwriter.story.formats.cursor import Cursor, line_cursors, top
from srbwriter.story.model import (
    Author,
    DraftNode,
    Generation,
    JsonObject,
    JsonValue,
    Marks,
    Settings,
    StoryDraft,
    as_list,
    as_object,
    children_by_parent,
    nested_text,
)

NAME = "loom"
BOOKMARK_TAG = "bookmark"
FORMER_FLAGS = ("archived", "canonical")
"""Fields of old nodes that are tags by now, as is the bookmark."""

_PARENT_KEYS = {"parent_id", "parentId"}
_AUTHORS: dict[str, Author] = {"prompt": "writer", "AI": "model", "mixed": "edited"}
_SOURCES = {"model": "AI", "edited": "mixed", "writer": "prompt", "imported": "prompt"}


def matches(document: Document) -> bool:
    fields = document.object
    items = [as_object(item) for item in as_list(document.value)]
    if document.kind == "jsonl":
        return any({"id", "text"} & set(line) and _PARENT_KEYS & set(line) for line in items)
    if items:
        return any(_is_node(item) for item in items)
    return isinstance(fields.get("root"), dict) and _is_node(as_object(fields["root"])) or _is_node(fields)


def _is_node(fields: JsonObject) -> bool:
    """A node that nests its children, or one that names its parent.  One of its fields may be damaged."""
    children = [as_object(child) for child in as_list(fields.get("children"))]
    if "text" in fields:
        return "children" in fields or bool(_PARENT_KEYS & set(fields))
    return any("text" in child or "children" in child for child in children)


def read(document: Document) -> StoryDraft:
    if document.kind == "jsonl":
        return arrange(_flat(line_cursors(document)))
    if isinstance(document.value, list):
        return _read_list(document)
    whole = top(document)
    wrapped = isinstance(whole.raw("root"), dict)
    start = whole.need_object("root") if wrapped else whole
    chapters = _Chapters(whole if wrapped else None)
    models = _Models(whole.raw("model_responses") if wrapped else None)
    selected = whole.ident("selected_node_id") if wrapped else None
    draft = arrange(_read_nested([start], chapters, models), selected)
    if wrapped:
        general = _global_context({"generation_settings": whole.raw("generation_settings")})
        draft.root.settings.memory = draft.root.settings.memory or general
    return draft


def _read_list(document: Document) -> StoryDraft:
    """Nodes in a list, nested in one another or one after the other."""
    items = Cursor({"nodes": document.value}, document.name, faults=document.faults).good_objects("nodes")
    if any(item.raw("children") is not None for item in items):
        return arrange(_read_nested(items, _Chapters(None), _Models(None)))
    return arrange(_flat(items))


def _flat(cursors: list[Cursor]) -> list[Loose]:
    loose: list[Loose] = []
    for cursor in cursors:
        if cursor.raw("id") is None:
            cursor.add_notice("expected an id; it is given one", "id")
        parent_id = cursor.ident("parent_id") or cursor.ident("parentId")
        loose.append(Loose(_node(cursor, parent_id, _Chapters(None), _Models(None)), cursor))
    return loose


def _read_nested(tops: list[Cursor], chapters: _Chapters, models: _Models) -> list[Loose]:
    """Depth first without recursion, in reading order."""
    ids = OwnIds()
    loose: list[Loose] = []
    stack: list[tuple[Cursor, str | None]] = [(cursor, None) for cursor in reversed(tops)]
    while stack:
        cursor, parent_id = stack.pop()
        children = cursor.good_objects("children")
        node = _node(cursor, parent_id, chapters, models)
        if not node.id and not loose:
            node.id = ROOT_ID
        ids.give(node, cursor)
        loose.append(Loose(node, cursor))
        stack.extend((child, node.id) for child in reversed(children))
    return loose


def _node(cursor: Cursor, parent_id: str | None, chapters: _Chapters, models: _Models) -> DraftNode:
    text = cursor.good_text("text") if cursor.raw("text") is not None else ""
    node_id = cursor.ident("id") or ""
    about = cursor.object("meta")
    author = _AUTHORS.get(str(about.raw("source"))) if about else None
    tags = cursor.texts("tags")
    tags += [flag for flag in FORMER_FLAGS if cursor.flag(flag) and flag not in tags]
    chapter = chapters.title(node_id, cursor.raw("chapter_id"))
    return DraftNode(
        node_id,
        parent_id,
        text=text,
        author=author or "imported",
        generation=models.of(cursor.raw("generation")),
        marks=Marks(
            bookmark=cursor.flag("bookmark") or BOOKMARK_TAG in tags,
            tags=tuple(tag for tag in tags if tag != BOOKMARK_TAG),
            chapter=chapter is not None,
            title=chapter or "",
            visited=cursor.flag("visited"),
        ),
        settings=Settings(memory=_global_context(cursor.raw("frame"))),
        created=read_time(about.raw("creation_timestamp")) if about else None,
    )


class _Chapters:
    """The chapters of a file. A node names its chapter, or the chapter its node."""

    def __init__(self, whole: Cursor | None) -> None:
        self._by_id = dict(whole.good_entries("chapters")) if whole else {}
        self._by_root: dict[str, str] = {}
        for chapter_id, chapter in self._by_id.items():
            if (root_id := chapter.ident("root_id")) is not None:
                self._by_root.setdefault(root_id, chapter_id)

    def title(self, node_id: str, named: JsonValue) -> str | None:
        """The title of the chapter that starts at a node, which may name it; ``None`` if none does."""
        by_name = isinstance(named, str) and named in self._by_id
        chapter_id = named if by_name else self._by_root.get(node_id)
        return None if chapter_id is None else self._by_id[chapter_id].text("title")


def _global_context(holder: JsonValue) -> str | None:
    """The text before every prompt, from a frame or the top level."""
    context = as_object(as_object(holder).get("generation_settings")).get("global_context")
    return context if isinstance(context, str) and context else None


class _Models:
    """What ``model_responses`` says about a node's ``generation``."""

    def __init__(self, responses: Any) -> None:
        self._responses = as_object(responses)

    def of(self, generation: Any) -> Generation | None:
        where = as_object(generation)
        response = as_object(self._responses.get(str(where.get("id"))))
        model, index = response.get("model"), where.get("index")
        if not isinstance(model, str) or not isinstance(index, int):
            return None
        return Generation(model=model, finish_reason=_finish_reason(response.get("completions"), index))


def _finish_reason(completions: Any, index: int) -> str:
    known = as_list(completions)
    reason = as_object(known[index]).get("finishReason") if 0 <= index < len(known) else None
    reason = as_object(reason).get("reason", reason)
    return reason if isinstance(reason, str) else ""


def write(draft: StoryDraft) -> bytes:
    starts = {node.id: f"chapter-{node.id}" for node in draft.nodes if node.marks.chapter}
    head: JsonObject = {
        "selected_node_id": draft.current_id,
        "chapters": {
            starts[node.id]: {"id": starts[node.id], "root_id": node.id, "title": node.marks.title}
            for node in draft.nodes
            if node.marks.chapter
        },
        "tags": _plain_tags(draft),
    }
    opening = json.dumps(head, ensure_ascii=False)[:-1]
    return f'{opening}, "root": {_nested(draft, starts)}}}'.encode("utf-8", "replace")


def _plain_tags(draft: StoryDraft) -> JsonObject:
    """A definition for every tag, as loom gives a new one; it fails on a tag without."""
    names = sorted({tag for node in draft.nodes for tag in node.marks.tags})
    rest = {"scope": "node", "hide": False, "show_only": False, "toggle_key": "None", "icon": "None"}
    return {name: {"name": name, **rest} for name in names}


def _nested(draft: StoryDraft, starts: dict[str, str]) -> str:
    """The nodes inside one another."""
    children = children_by_parent(draft)

    def parts(node: DraftNode) -> Iterator[str | DraftNode]:
        yield json.dumps(_fields(node, starts.get(node.id)), ensure_ascii=False)[:-1] + ', "children": ['
        for index, child in enumerate(children[node.id]):
            if index:
                yield ", "
            yield child
        yield "]}"

    return nested_text(draft.root, parts)


def _fields(node: DraftNode, chapter_id: str | None) -> JsonObject:
    meta: JsonObject = {"source": _SOURCES[node.author]}
    if node.created is not None:
        meta["creation_timestamp"] = write_time(node.created, PYLOOM_TIME)
    own: JsonObject = {"chapter_id": chapter_id} if chapter_id else {}
    if node.settings.memory is not None:
        own["frame"] = {"generation_settings": {"global_context": node.settings.memory}}
    return {
        **own,
        "id": node.id,
        "text": node.text,
        "parent_id": node.parent_id,
        "mutable": node.parent_id is not None,
        "visited": node.marks.visited,
        "tags": [*node.marks.tags, *([BOOKMARK_TAG] if node.marks.bookmark else [])],
        "meta": meta,
    }


FORMAT = Format(NAME, "Loom tree (socketteer/loom)", ".json", matches, read, write)
