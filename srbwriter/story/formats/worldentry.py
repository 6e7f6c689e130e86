"""World info entries as Kobold and SillyTavern write them, in all their spellings.

Shared by the importers of both families; it knows single entries and no file.
"""

from __future__ import annotations

from srbwriter.story.draft import LoreEntry, SecondaryLogic, keep_foreign
from srbwriter.story.formats.cursor import Cursor

_LOGIC: dict[int, SecondaryLogic] = {0: "any", 1: "not_all", 2: "not_any", 3: "all"}
"""SillyTavern's selectiveLogic."""

AT_DEPTH = 4
"""SillyTavern's position for "at depth"."""


def tavern_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """A SillyTavern world info entry."""
    keys, secondary = keys_of(cursor, "key"), keys_of(cursor, "keysecondary")
    selective = cursor.peek("selective") is not False
    depth = cursor.integer("depth")
    entry = LoreEntry(
        id=cursor.ident("uid") or entry_id,
        name=cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys,
        secondary=secondary if selective else [],
        logic=_LOGIC.get(cursor.integer("selectiveLogic") or 0, "any"),
        enabled=not cursor.flag("disable"),
        constant=cursor.flag("constant"),
        case_sensitive=cursor.flag("caseSensitive"),
        whole_words=cursor.flag("matchWholeWords"),
        depth=depth if cursor.integer("position") == AT_DEPTH else None,
        order=cursor.integer("order") or 0,
    )
    rest = cursor.rest()
    if secondary and not selective:
        rest["keysecondary"] = list(secondary)
    keep_foreign(entry.meta, "sillytavern", rest)
    return entry


def card_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """An entry of the lorebook inside a character card."""
    selective = cursor.flag("selective")
    secondary = keys_of(cursor, "secondary_keys")
    name = cursor.text("name")
    entry = LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=name or cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys_of(cursor, "keys"),
        secondary=secondary if selective else [],
        enabled=cursor.flag("enabled", True),
        constant=cursor.flag("constant"),
        case_sensitive=cursor.flag("case_sensitive"),
        order=cursor.integer("insertion_order") or 0,
    )
    keep_foreign(entry.meta, "sillytavern", cursor.rest())
    return entry


def kobold_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """A KoboldAI entry: keys in one text, or in a list since United."""
    secondary, excluded = keys_of(cursor, "keysecondary"), keys_of(cursor, "keyanti")
    selective = cursor.peek("selective")
    used = secondary if selective is True else []
    only_excluded = bool(excluded) and not used
    entry = LoreEntry(
        id=cursor.ident("uid") or entry_id,
        name=cursor.text("comment"),
        text=cursor.good_text("content"),
        keys=keys_of(cursor, "key"),
        secondary=excluded if only_excluded else used,
        logic="not_any" if only_excluded else "any",
        enabled=not cursor.flag("widisabled"),
        constant=cursor.flag("constant"),
    )
    rest = cursor.rest()
    if used:
        rest.pop("selective", None)  # said by the secondary keys
    if secondary and not used:
        rest["keysecondary"] = list(secondary)
    if excluded and not only_excluded:
        rest["keyanti"] = list(excluded)
    keep_foreign(entry.meta, "kobold", rest)
    return entry


def keys_of(cursor: Cursor, key: str) -> list[str]:
    """Keys from a list, or from one text with commas; regular expressions may contain commas."""
    if not isinstance(cursor.peek(key), str):
        return [text for text in cursor.texts(key) if text.strip()]
    text = cursor.text(key)
    if text.strip().startswith("/"):
        return [text.strip()]
    return [part.strip() for part in text.split(",") if part.strip()]
