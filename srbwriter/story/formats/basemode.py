"""basemode-loom trees: a flat list of nodes, among them contexts that hold for a node and all below it."""

from __future__ import annotations

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Loose, arrange, time_of, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import (
    Author,
    DraftNode,
    Generation,
    JsonObject,
    Marks,
    StoryDraft,
    as_list,
    as_object,
    children_by_parent,
    keep_foreign,
)

NAME = "basemode-loom"
HIDDEN_TAG = "hidden"
CONTEXT = "context"
"""The kind of a node that is no part of the text."""

_LINKS = {"id", "parent_id"}
_OWN = {"tree_id", "root_id", "kind", "branch_index"}
"""Fields that only nodes of this program have; two of them older, two newer."""


def matches(document: Document) -> bool:
    nodes = [as_object(node) for node in as_list(document.object.get("nodes"))]
    return any(_LINKS.issubset(node) and _OWN & set(node) for node in nodes)


def read(document: Document) -> StoryDraft:
    whole = top(document)
    cursors = whole.good_objects("nodes", needed=True)
    contexts: dict[str, JsonObject] = {
        str(cursor.peek("id")): cursor.all() for cursor in cursors if cursor.peek("kind") == CONTEXT
    }
    texts = [cursor for cursor in cursors if cursor.peek("kind") != CONTEXT]
    loose = [Loose(_node(cursor, contexts), cursor) for cursor in texts]
    loose.sort(key=_branch_index)
    shown = {id(item.node) for item in loose if item.cursor.peek("checked_out") is True}
    draft = arrange(loose)
    draft.current_id = _shown_end(draft, shown) or draft.current_id
    rest = whole.rest()
    if contexts:
        rest["contexts"] = list(contexts.values())
    keep_foreign(draft.meta, NAME, rest)
    return draft


def _branch_index(item: Loose) -> float:
    index = item.cursor.peek("branch_index")
    return index if isinstance(index, int | float) else 0.0


def _shown_end(draft: StoryDraft, shown: set[int]) -> str | None:
    """The end of the path along the children that were shown; ``None`` if none was."""
    children = children_by_parent(draft)
    here: DraftNode | None = draft.root
    last: DraftNode | None = None
    while here is not None:
        here = next((child for child in children[here.id] if id(child) in shown), None)
        last = here or last
    return last.id if last else None


def _node(cursor: Cursor, contexts: dict[str, JsonObject]) -> DraftNode:
    if cursor.peek("id") is None:
        cursor.add_notice("expected an id; it is given one", "id")
    about = cursor.object("metadata")
    model = cursor.text("model")
    author: Author = "model" if model else "writer"
    rating = about.peek("rating") if about else None
    if about and rating in (-1, 0, 1):
        about.skip("rating")
    node = DraftNode(
        cursor.ident("id") or "",
        cursor.link("parent_id"),
        text=cursor.good_text("text"),
        author=author,
        generation=Generation(model=model) if model else None,
        marks=Marks(
            bookmark=about.flag("bookmarked") if about else False,
            tags=(HIDDEN_TAG,) if about and about.flag("hidden") else (),
            rating=_sign(rating) if isinstance(rating, int | float) else 0,
        ),
        created=time_of(cursor, "created_at"),
    )
    context = contexts.get(str(cursor.peek("context_id")), {}).get("text")
    if isinstance(context, str):
        node.settings.memory = context or None
    rest = cursor.rest()
    if about and about.rest():
        rest["metadata"] = about.rest()
    return with_foreign(node, NAME, rest)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


FORMAT = Format(NAME, "basemode-loom tree", ".json", matches, read)
