"""World info entries as Kobold, SillyTavern and AI Dungeon write them, in all their spellings.

Shared by the importers of both families; it knows single entries and no file.
"""

from __future__ import annotations

import re

from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.model import LoreEntry, SecondaryLogic, as_list, keep_foreign

_LOGIC: dict[int, SecondaryLogic] = {0: "any", 1: "not_all", 2: "not_any", 3: "all"}
"""SillyTavern's selectiveLogic."""

AT_DEPTH = 4
"""SillyTavern's position for "at depth"."""

DEFAULT_DEPTH = 4
"""SillyTavern's depth for an entry "at depth" that gives none."""


def tavern_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """A SillyTavern world info entry; ``entry_id`` is its name in the file."""
    keys, secondary = keys_of(cursor, "key"), keys_of(cursor, "keysecondary")
    selective = cursor.peek("selective") is not False
    uid = cursor.ident("uid")
    entry = LoreEntry(
        id=uid or entry_id,
        name=cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys,
        secondary=secondary if selective else [],
        logic=_logic(cursor, "selectiveLogic"),
        enabled=not cursor.flag("disable"),
        constant=cursor.flag("constant"),
        case_sensitive=cursor.flag("caseSensitive"),
        whole_words=cursor.flag("matchWholeWords"),
        depth=_depth(cursor),
        order=cursor.integer("order") or 0,
    )
    rest = cursor.rest()
    if uid is not None and uid != entry_id:
        rest["name in the file"] = entry_id
    if secondary and not selective:
        rest["keysecondary"] = list(secondary)
    keep_foreign(entry.meta, "sillytavern", rest)
    return entry


def card_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """An entry of a character's lorebook, in a card or in a file of its own.

    What SillyTavern adds under ``extensions`` is used too, and stays there as well.
    """
    selective = cursor.flag("selective")
    secondary = keys_of(cursor, "secondary_keys")
    name = cursor.text("name")
    case_sensitive = cursor.flag("case_sensitive")
    keys = keys_of(cursor, "keys")
    if cursor.peek("use_regex") is True:
        keys = [_pattern(key, case_sensitive) for key in keys]
    added = cursor.inner("extensions")
    entry = LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=name or cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys,
        secondary=secondary if selective else [],
        logic=_logic(added, "selectiveLogic"),
        enabled=cursor.flag("enabled", True),
        constant=cursor.flag("constant"),
        case_sensitive=case_sensitive or added.flag("case_sensitive"),
        whole_words=added.flag("match_whole_words"),
        depth=_depth(added),
        order=cursor.integer("insertion_order") or 0,
    )
    rest = cursor.rest()
    if secondary and not selective:
        rest["secondary_keys"] = list(secondary)
    keep_foreign(entry.meta, "sillytavern", rest)
    return entry


def _logic(cursor: Cursor, key: str) -> SecondaryLogic:
    """An unknown number stays among the unread."""
    number = cursor.peek(key)
    if type(number) is not int or number not in _LOGIC:
        return "any"
    cursor.skip(key)
    return _LOGIC[number]


def _depth(cursor: Cursor) -> int | None:
    """The depth of an entry that stands at one; other places, and idle depths, stay among the unread."""
    if type(cursor.peek("position")) is not int or cursor.peek("position") != AT_DEPTH:
        return None
    depth = cursor.integer("depth")
    if depth is None:
        return DEFAULT_DEPTH
    cursor.skip("position")
    return depth


def _pattern(key: str, case_sensitive: bool) -> str:
    """A key that its entry calls a regular expression, as one that can be seen to be one."""
    if key.startswith("/") and "/" in key[1:]:
        return key
    escaped = re.sub(r"(?<!\\)/", r"\/", key)
    return f"/{escaped}/{'' if case_sensitive else 'i'}"


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
    """Keys from a list, or from one text with commas; regular expressions may contain commas.

    A list with other things than texts gives its texts, and stays among the unread as well.
    """
    value = cursor.peek(key)
    if isinstance(value, list):
        texts = cursor.texts(key) or [item for item in as_list(value) if isinstance(item, str)]
        return [text for text in texts if text.strip()]
    text = cursor.text(key)
    if text.strip().startswith("/"):
        return [text.strip()]
    return [part.strip() for part in text.split(",") if part.strip()]
