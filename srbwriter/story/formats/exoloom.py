"""Exoloom trees."""

from __future__ import annotations

from srbwriter.story.draft import Author, DraftNode, Generation, Marks, StoryDraft, as_list, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Loose, arrange, read_time, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document

NAME = "exoloom"
SCHEMA_VERSION = 1

_AUTHORS: dict[str, Author] = {"USER": "writer", "LLM": "model"}


def matches(document: Document) -> bool:
    return document.object.get("loomType") == "Exoloom"


def read(document: Document) -> StoryDraft:
    whole = top(document)
    whole.skip("loomType")
    version = whole.integer("schemaVersion")
    if version != SCHEMA_VERSION:
        raise whole.error(f"{SCHEMA_VERSION}, the only schema known", "schemaVersion")
    tree = whole.need_object("tree")
    lens = whole.object("lens")
    bookmarked = {mark.ident("nodeId") for mark in lens.objects("bookmarks")} if lens else set[str | None]()
    pruned = {mark.ident("nodeId") for mark in lens.objects("prunedNodes")} if lens else set[str | None]()

    members = tree.need_entries("nodes")
    loose = [Loose(_node(key, cursor, bookmarked, pruned), cursor) for key, cursor in members]
    draft = arrange(_in_order(loose, members))
    root_id = tree.ident("rootNodeId")
    if root_id is not None and root_id not in {node.id for node in draft.nodes}:
        raise tree.error("the id of a node", "rootNodeId")
    draft.title = tree.text("title")
    draft.created = read_time(tree.raw("createdAt"))
    keep_foreign(draft.meta, NAME, {**whole.rest(), **tree.rest()})
    return draft


def _node(key: str, cursor: Cursor, bookmarked: set[str | None], pruned: set[str | None]) -> DraftNode:
    author = _AUTHORS.get(cursor.text("authorType"), "imported")
    name = cursor.text("authorName")
    node = DraftNode(
        key,
        cursor.ident("parentId"),
        text=cursor.need_text("content"),
        author=author,
        generation=Generation(model=name) if author == "model" and name else None,
        marks=Marks(bookmark=key in bookmarked, deleted=key in pruned),
        created=read_time(cursor.raw("createdAt")),
    )
    cursor.skip("parentId")
    rest = cursor.rest()
    rest.pop("childrenIds", None)
    if author != "model" and name:
        rest["authorName"] = name
    return with_foreign(node, NAME, rest)


def _in_order(loose: list[Loose], members: list[tuple[str, Cursor]]) -> list[Loose]:
    """Siblings as their parent lists them; unlisted ones keep the order of the file, at the end."""
    place: dict[str, int] = {}
    for _, cursor in members:
        for index, child in enumerate(as_list(cursor.peek("childrenIds"))):
            place[str(child)] = index
    return sorted(loose, key=lambda item: place.get(item.node.id, len(loose)))


FORMAT = Format(NAME, "Exoloom tree", ".json", matches, read)
