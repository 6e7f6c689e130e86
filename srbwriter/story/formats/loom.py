"""Loom tree JSON (socketteer/loom): nested nodes, old and new, the bare simple form, and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from srbwriter.story.draft import (
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
    foreign,
    keep_foreign,
    nested_text,
)
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import (
    PYLOOM_TIME,
    ROOT_ID,
    Loose,
    arrange,
    read_time,
    with_foreign,
    write_time,
)
from srbwriter.story.formats.cursor import Cursor, line_cursors, top
from srbwriter.story.formats.document import Document

NAME = "loom"
BOOKMARK_TAG = "bookmark"
FORMER_FLAGS = ("archived", "canonical")
"""Fields of old nodes that are tags by now, as is the bookmark."""

_AUTHORS: dict[str, Author] = {"prompt": "writer", "AI": "model", "mixed": "edited"}
_SOURCES = {"model": "AI", "edited": "mixed", "writer": "prompt", "imported": "prompt"}


def matches(document: Document) -> bool:
    fields = document.object
    if document.kind == "jsonl":
        return {"id", "text"} <= document.keys and bool({"parent_id", "parentId"} & document.keys)
    root = as_object(fields.get("root")) or fields
    return (
        isinstance(root.get("text"), str)
        and isinstance(root.get("children", []), list)
        and ("children" in root or "root" in fields)
    )


def read(document: Document) -> StoryDraft:
    if document.kind == "jsonl":
        return _read_lines(document)
    whole = top(document)
    wrapped = isinstance(whole.peek("root"), dict)
    start = whole.need_object("root") if wrapped else whole
    chapters = _chapter_titles(whole)
    models = _Models(whole.peek("model_responses") if wrapped else None)
    selected = whole.ident("selected_node_id")
    nodes = _read_nested(start, chapters, models)
    draft = arrange(nodes, selected)
    if wrapped:
        general = _global_context({"generation_settings": whole.peek("generation_settings")})
        draft.root.settings.memory = draft.root.settings.memory or general
        keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _read_lines(document: Document) -> StoryDraft:
    loose: list[Loose] = []
    for cursor in line_cursors(document):
        parent = cursor.ident("parent_id") or cursor.ident("parentId")
        if cursor.ident("id") is None:
            raise cursor.error("an id", "id")
        loose.append(Loose(_node(cursor, parent, "", {}, _Models(None)), cursor))
    return arrange(loose)


def _read_nested(start: Cursor, chapters: dict[str, str], models: _Models) -> list[Loose]:
    """Depth first without recursion, in reading order."""
    loose: list[Loose] = []
    stack: list[tuple[Cursor, str | None]] = [(start, None)]
    while stack:
        cursor, parent_id = stack.pop()
        children = cursor.need_objects("children") if cursor.peek("children") is not None else []
        cursor.skip("parent_id", "parentId")  # said by the nesting
        node = _node(cursor, parent_id, f"n{len(loose)}" if parent_id else ROOT_ID, chapters, models)
        loose.append(Loose(node, cursor))
        stack.extend((child, node.id) for child in reversed(children))
    return loose


def _node(
    cursor: Cursor, parent_id: str | None, new_id: str, chapters: dict[str, str], models: _Models
) -> DraftNode:
    text = cursor.need_text("text") if cursor.peek("text") is not None else ""
    node_id = cursor.ident("id") or new_id
    about = cursor.object("meta")
    source = about.text("source") if about else ""
    tags = cursor.texts("tags")
    tags += [flag for flag in FORMER_FLAGS if cursor.flag(flag) and flag not in tags]
    old_bookmark = cursor.flag("bookmark")
    cursor.skip("chapter_id")  # said by the chapters
    node = DraftNode(
        node_id,
        parent_id,
        text=text,
        author=_AUTHORS.get(source, "imported"),
        generation=models.of(cursor.peek("generation")),
        marks=Marks(
            bookmark=old_bookmark or BOOKMARK_TAG in tags,
            tags=[tag for tag in tags if tag != BOOKMARK_TAG],
            chapter=node_id in chapters,
            title=chapters.get(node_id, ""),
            visited=cursor.flag("visited"),
        ),
        settings=Settings(memory=_global_context(cursor.peek("frame"))),
        created=read_time(about.raw("creation_timestamp")) if about else None,
    )
    rest = cursor.rest()
    if about and about.rest():
        rest["meta"] = about.rest()
    return with_foreign(node, NAME, rest)


def _global_context(holder: JsonValue) -> str | None:
    """The text before every prompt, from a frame or the top level."""
    context = as_object(as_object(holder).get("generation_settings")).get("global_context")
    return context if isinstance(context, str) and context else None


def _chapter_titles(whole: Cursor) -> dict[str, str]:
    """Titles by the id of the node a chapter starts at."""
    chapters = whole.entries("chapters")
    titles = {chapter.ident("root_id"): chapter.text("title") for _, chapter in chapters}
    return {node_id: title for node_id, title in titles.items() if node_id is not None}


class _Models:
    """What ``model_responses`` says about a node's ``generation``; both stay among the foreign fields."""

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
    kept = foreign(draft.meta, NAME)
    head: JsonObject = {
        **kept,
        "selected_node_id": draft.current_id,
        "chapters": {
            _chapter_id(node): {"id": _chapter_id(node), "root_id": node.id, "title": node.marks.title}
            for node in draft.nodes
            if node.marks.chapter
        },
        "tags": {**_plain_tags(draft), **as_object(kept.get("tags"))},
    }
    opening = json.dumps(head, ensure_ascii=False)[:-1]
    return f'{opening}, "root": {_nested(draft)}}}'.encode("utf-8", "replace")


def _chapter_id(node: DraftNode) -> str:
    return f"chapter-{node.id}"


def _plain_tags(draft: StoryDraft) -> JsonObject:
    """A definition for every tag, as loom gives a new one; it fails on a tag without."""
    names = sorted({tag for node in draft.nodes for tag in node.marks.tags})
    rest = {"scope": "node", "hide": False, "show_only": False, "toggle_key": "None", "icon": "None"}
    return {name: {"name": name, **rest} for name in names}


def _nested(draft: StoryDraft) -> str:
    """The nodes inside one another."""
    children = children_by_parent(draft)

    def parts(node: DraftNode) -> Iterator[str | DraftNode]:
        yield json.dumps(_fields(node), ensure_ascii=False)[:-1] + ', "children": ['
        for index, child in enumerate(children[node.id]):
            if index:
                yield ", "
            yield child
        yield "]}"

    return nested_text(draft.root, parts)


def _fields(node: DraftNode) -> JsonObject:
    kept = foreign(node.meta, NAME)
    meta: JsonObject = {**as_object(kept.get("meta")), "source": _SOURCES[node.author]}
    if node.created is not None:
        meta["creation_timestamp"] = write_time(node.created, PYLOOM_TIME)
    own: JsonObject = {"chapter_id": _chapter_id(node)} if node.marks.chapter else {}
    if node.settings.memory is not None:
        own["frame"] = _with_memory(as_object(kept.get("frame")), node.settings.memory)
    return {
        **kept,
        **own,
        "id": node.id,
        "text": node.text,
        "parent_id": node.parent_id,
        "mutable": kept.get("mutable", node.parent_id is not None),
        "visited": node.marks.visited,
        "tags": [*node.marks.tags, *([BOOKMARK_TAG] if node.marks.bookmark else [])],
        "meta": meta,
    }


def _with_memory(frame: JsonObject, memory: str) -> JsonObject:
    generation = {**as_object(frame.get("generation_settings")), "global_context": memory}
    return {**frame, "generation_settings": generation}


FORMAT = Format(NAME, "Loom tree (socketteer/loom)", ".json", matches, read, write)
