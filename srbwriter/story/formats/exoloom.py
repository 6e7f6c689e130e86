"""Exoloom trees."""

from __future__ import annotations

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Loose, arrange, time_of, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import Author, DraftNode, Generation, Marks, StoryDraft, as_list, keep_foreign

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
    bookmarked, pruned = _lens(whole)
    members = tree.good_entries("nodes", needed=True)
    loose = [Loose(_node(key, cursor, bookmarked, pruned), cursor) for key, cursor in members]
    root_id = tree.ident("rootNodeId")
    for item in loose:
        if item.node.id == root_id and item.node.parent_id is not None:
            item.cursor.add_notice("the root has a parent; it is left out", "parentId", item.node.parent_id)
            item.node.parent_id = None
    draft = arrange(_in_order(loose, members))
    if root_id is not None and root_id != draft.root.id:
        tree.add_notice(f"node {root_id!r} is not where the tree begins", "rootNodeId", root_id)
    draft.title = tree.text("title")
    draft.created = time_of(tree, "createdAt")
    keep_foreign(draft.meta, NAME, {**whole.rest(), **tree.rest()})
    return draft


def _lens(whole: Cursor) -> tuple[set[str], set[str]]:
    """The ids of bookmarked and of pruned nodes; the marks themselves stay among the foreign fields."""
    if not isinstance(whole.peek("lens"), dict):
        return set(), set()
    lens = Cursor(whole.peek("lens"), whole.file, "lens", whole)
    marked = [
        [mark.ident("nodeId") for mark in lens.good_objects(key)] for key in ("bookmarks", "prunedNodes")
    ]
    bookmarked, pruned = ({node_id for node_id in ids if node_id is not None} for ids in marked)
    return bookmarked, pruned


def _node(key: str, cursor: Cursor, bookmarked: set[str], pruned: set[str]) -> DraftNode:
    author = _AUTHORS.get(str(cursor.peek("authorType")), "imported")
    if author != "imported":
        cursor.skip("authorType")
    name = cursor.text("authorName")
    cursor.skip("childrenIds")  # the parents say the same
    node = DraftNode(
        key,
        cursor.link("parentId"),
        text=cursor.good_text("content"),
        author=author,
        generation=Generation(model=name) if author == "model" and name else None,
        marks=Marks(bookmark=key in bookmarked, deleted=key in pruned),
        created=time_of(cursor, "createdAt"),
    )
    rest = cursor.rest()
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
