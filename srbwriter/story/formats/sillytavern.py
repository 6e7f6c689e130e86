"""SillyTavern chats: one message per line; swipes become sibling branches."""

from __future__ import annotations

from srbwriter.story.draft import DraftNode, Generation, StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower, read_time, with_foreign
from srbwriter.story.formats.cursor import Cursor, line_cursors
from srbwriter.story.formats.document import Document

NAME = "sillytavern"

BETWEEN = "\n\n"
"""What joins messages when a chat is read as prose."""


def matches(document: Document) -> bool:
    if document.kind not in ("json", "jsonl"):
        return False
    keys = document.keys
    return "chat_metadata" in keys or {"user_name", "character_name"} <= keys or {"mes", "is_user"} <= keys


def read(document: Document) -> StoryDraft:
    cursors = line_cursors(document)
    head = cursors.pop(0) if cursors[0].peek("mes") is None else None
    grower = Grower()
    here = grower.root
    for cursor in cursors:
        here = _grow(grower, here, cursor)
    draft = grower.draft(here)
    if head is not None:
        _describe(draft, head)
    return draft


def _describe(draft: StoryDraft, head: Cursor) -> None:
    draft.title = head.text("character_name")
    draft.byline = head.text("user_name")
    draft.created = read_time(head.raw("create_date"))
    about = head.object("chat_metadata")
    if about:
        draft.root.settings.author_note = about.text("note_prompt") or None
        draft.root.settings.author_note_depth = about.integer("note_depth")
    rest = head.rest()
    if about and about.rest():
        rest["chat_metadata"] = about.rest()
    keep_foreign(draft.meta, NAME, rest)


def _grow(grower: Grower, here: DraftNode, cursor: Cursor) -> DraftNode:
    """All swipes as children of ``here``; the story goes on from the one that was shown."""
    shown = cursor.need_text("mes")
    swipes = cursor.texts("swipes") or [shown]
    selected = _selected(cursor, swipes, shown)
    join = BETWEEN if here is not grower.root else ""
    model = _model(cursor)
    author = "writer" if cursor.flag("is_user") else "model"
    created = read_time(cursor.raw("send_date"))
    nodes = [
        grower.add(
            here,
            DraftNode(
                "",
                text=join + (shown if index == selected else swipe),
                author=author,
                generation=Generation(model=model) if model else None,
                created=created,
            ),
        )
        for index, swipe in enumerate(swipes)
    ]
    cursor.skip("mes", "swipes", "swipe_id")
    with_foreign(nodes[selected], NAME, cursor.rest())
    return nodes[selected]


def _selected(cursor: Cursor, swipes: list[str], shown: str) -> int:
    """The swipe that is shown; the message itself has the last word when the number is wrong."""
    index = cursor.integer("swipe_id")
    if index is not None and not 0 <= index < len(swipes):
        raise cursor.error(f"a number from 0 to {len(swipes) - 1}", "swipe_id")
    if index is not None:
        return index
    return swipes.index(shown) if shown in swipes else 0


def _model(cursor: Cursor) -> str:
    match cursor.peek("extra"):
        case {"model": str(model)}:
            return model
        case _:
            return ""


FORMAT = Format(NAME, "SillyTavern chat", ".jsonl", matches, read)
