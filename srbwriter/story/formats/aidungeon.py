"""AI Dungeon: story cards, and the world info they came from (help.aidungeon.com, "Story Cards Import and
Export")."""

from __future__ import annotations

from typing import Any

from srbwriter.story.formats.base import Document, Format
from srbwriter.story.formats.build import Grower
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.lore import add_lore, each, keys_of
from srbwriter.story.model import LoreEntry, StoryDraft, as_list, as_object


def matches(document: Document) -> bool:
    return document.kind == "json" and any(map(_is_card, as_list(document.value)))


def _is_card(value: Any) -> bool:
    fields = as_object(value)
    return "keys" in fields and bool({"value", "entry"} & fields.keys())


def read(document: Document) -> StoryDraft:
    draft = Grower().draft()
    listed = Cursor({"cards": document.value}, document.name, faults=document.faults)
    add_lore(draft, each(listed, "cards", _card))
    return draft


def _card(cursor: Cursor, index: str) -> LoreEntry:
    """Read a story card, or an entry of world info; the note for its author replaces an empty text."""
    text = cursor.need_text("entry" if "entry" in cursor.all() else "value")
    description = cursor.raw("description")
    return LoreEntry(
        id=cursor.ident("id") or f"card-{index}",
        name=cursor.text("title") or cursor.text("name"),
        text=text or (description if isinstance(description, str) else ""),
        keys=keys_of(cursor, "keys"),
        enabled=cursor.raw("deletedAt") is None,
    )


CARDS = Format("aidungeon-cards", "AI Dungeon story cards, world info", ".json", matches, read)
