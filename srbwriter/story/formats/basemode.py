"""basemode-loom trees: a flat list of nodes."""

from __future__ import annotations

from srbwriter.story.draft import Author, DraftNode, Generation, Marks, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Loose, arrange, read_time, with_foreign
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document

NAME = "basemode-loom"
HIDDEN_TAG = "hidden"


def matches(document: Document) -> bool:
    match document.object.get("nodes"):
        case [{"id": _, "parent_id": _, "text": _, **rest}, *_]:
            return bool({"root_id", "kind", "branch_index"} & set(rest))
        case _:
            return False


def read(document: Document) -> StoryDraft:
    whole = top(document)
    loose: list[tuple[float, Loose]] = []
    for cursor in whole.need_objects("nodes"):
        branch = cursor.number("branch_index")
        loose.append((branch or 0.0, Loose(_node(cursor), cursor)))
    loose.sort(key=lambda pair: pair[0])
    draft = arrange([item for _, item in loose])
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _node(cursor: Cursor) -> DraftNode:
    node_id = cursor.ident("id")
    if node_id is None:
        raise cursor.error("an id", "id")
    about = cursor.object("metadata")
    model = cursor.text("model")
    author: Author = "model" if model else "writer"
    rating = about.number("rating") if about else None
    cursor.skip("root_id", "parent_id")
    node = DraftNode(
        node_id,
        cursor.ident("parent_id"),
        text=cursor.need_text("text"),
        author=author,
        generation=Generation(model=model) if model else None,
        marks=Marks(
            bookmark=about.flag("bookmarked") if about else False,
            tags=[HIDDEN_TAG] if about and about.flag("hidden") else [],
            rating=_sign(rating or 0),
        ),
        created=read_time(cursor.raw("created_at")),
    )
    rest = cursor.rest()
    if about and about.rest():
        rest["metadata"] = about.rest()
    return with_foreign(node, NAME, rest)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


FORMAT = Format(NAME, "basemode-loom tree", ".json", matches, read)
