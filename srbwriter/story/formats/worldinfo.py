"""SillyTavern world info: a lorebook without a story."""

from __future__ import annotations

from typing import Any, cast

from srbwriter.story.draft import StoryDraft, keep_foreign
from srbwriter.story.formats.base import Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.formats.document import Document
from srbwriter.story.formats.worldentry import tavern_entry

NAME = "worldinfo"


def matches(document: Document) -> bool:
    entries = document.object.get("entries")
    if not isinstance(entries, dict):
        return False
    members = list(cast(dict[str, Any], entries).values())
    return all(isinstance(member, dict) and {"key", "content"} & set(cast(Any, member)) for member in members)


def read(document: Document) -> StoryDraft:
    whole = top(document)
    draft = Grower().draft(title=whole.text("name"))
    draft.root.settings.lore = [
        tavern_entry(_with_keys(cursor), f"world-{key}") for key, cursor in whole.need_entries("entries")
    ]
    keep_foreign(draft.meta, NAME, whole.rest())
    return draft


def _with_keys(cursor: Cursor) -> Cursor:
    if not isinstance(cursor.peek("key"), list | str):
        raise cursor.error("a list of keys", "key")
    return cursor


FORMAT = Format(NAME, "SillyTavern world info", ".json", matches, read)
