"""Lorebook entries on their way into a story, and files that hold nothing else.

Entries as Kobold, SillyTavern, AI Dungeon and character cards write them, in all their spellings. The files
are SillyTavern world info, and the book of a card in a file of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from srbwriter.story.formats.base import Document, Format, FormatError
from srbwriter.story.formats.build import Grower, notice
from srbwriter.story.formats.cursor import Cursor, top
from srbwriter.story.model import (
    DraftNode,
    JsonObject,
    LoreEntry,
    StoryDraft,
    as_list,
    as_object,
)

MOST_NAMES = 5
"""Names that one notice gives."""

_PLACEHOLDER = re.compile(r"[$%]\{[^{}\n]+\}")

Member = TypeVar("Member")


def each(cursor: Cursor, key: str, read: Callable[[Cursor, str], Member]) -> list[Member]:
    """Read the objects of a list, or of an object, with ``read``, which gets each with its index or name.

    An object for which it raises :class:`FormatError` is left out with a notice.
    """
    found: list[Member] = []
    for name, member in cursor.good_members(key):
        try:
            found.append(read(member, name))
        except FormatError as error:
            member.leave_out(error)
    return found


def add_lore(draft: StoryDraft, entries: Iterable[LoreEntry], node: DraftNode | None = None) -> None:
    """Add these entries to the story, or to the nodes after ``node``, each with a new id.

    An entry that nothing can activate (no keys, and not constant) is switched off with a notice.
    """
    lore = (node or draft.root).settings.lore
    lore.extend(entries)
    seen: set[str] = set()
    for entry in lore:
        known, count = entry.id, 1
        while entry.id in seen:
            count += 1
            entry.id = f"{known} ({count})"
        seen.add(entry.id)
    mute = [entry for entry in lore if entry.enabled and not entry.constant and not entry.keys]
    for entry in mute:
        entry.enabled = False
    if mute:
        notice(draft, _words_for_mute(mute))


def _words_for_mute(entries: list[LoreEntry]) -> str:
    shown = _some([entry.name or entry.id for entry in entries])
    one = len(entries) == 1
    subject = f"The lorebook entry {shown} has" if one else f"{len(entries)} lorebook entries ({shown}) have"
    verb, them = ("was", "it") if one else ("were", "them")
    return f"{subject} no keys and {verb} switched off: give {them} keys, or make {them} constant."


def notice_placeholders(draft: StoryDraft) -> None:
    """Add a notice about placeholders, ``${name}``, which stay in the texts of a scenario."""
    settings = draft.root.settings
    texts = [*(node.text for node in draft.nodes), settings.memory or "", settings.author_note or ""]
    texts += [entry.text for entry in settings.lore]
    found = list(dict.fromkeys(place for text in texts for place in _PLACEHOLDER.findall(text)))
    if found:
        notice(
            draft, f"This scenario has places to fill in, which stand in the text as they are: {_some(found)}"
        )


def _some(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


AT_DEPTH = 4
"""SillyTavern's position for "at depth"."""

DEFAULT_DEPTH = 4
"""SillyTavern's depth for an entry "at depth" that gives none."""


def tavern_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """A SillyTavern world info entry; ``entry_id`` is its name in the file."""
    if cursor.raw("selective") is not False:
        _notice_unused(cursor, "keysecondary")
    return LoreEntry(
        id=cursor.ident("uid") or entry_id,
        name=cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys_of(cursor, "key"),
        enabled=not cursor.flag("disable"),
        constant=cursor.flag("constant"),
        case_sensitive=cursor.flag("caseSensitive"),
        whole_words=cursor.flag("matchWholeWords"),
        depth=_depth(cursor),
        order=cursor.integer("order") or 0,
    )


def card_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """An entry of a character's lorebook, in a card or in a file of its own.

    What SillyTavern adds under ``extensions`` is used too.
    """
    if cursor.flag("selective"):
        _notice_unused(cursor, "secondary_keys")
    name = cursor.text("name")
    case_sensitive = cursor.flag("case_sensitive")
    keys = keys_of(cursor, "keys")
    if cursor.raw("use_regex") is True:
        keys = [_pattern(key, case_sensitive) for key in keys]
    added = cursor.inner("extensions")
    return LoreEntry(
        id=cursor.ident("id") or entry_id,
        name=name or cursor.text("comment"),
        text=cursor.need_text("content"),
        keys=keys,
        enabled=cursor.flag("enabled", True),
        constant=cursor.flag("constant"),
        case_sensitive=case_sensitive or added.flag("case_sensitive"),
        whole_words=added.flag("match_whole_words"),
        depth=_depth(added),
        order=cursor.integer("insertion_order") or 0,
    )


def _depth(cursor: Cursor) -> int | None:
    """Return the depth of an entry that is placed at one, None for other positions."""
    if cursor.integer("position") != AT_DEPTH:
        return None
    depth = cursor.integer("depth")
    return DEFAULT_DEPTH if depth is None else depth


def _pattern(key: str, case_sensitive: bool) -> str:
    """A key that its entry calls a regular expression, as one that can be seen to be one."""
    if key.startswith("/") and "/" in key[1:]:
        return key
    escaped = re.sub(r"(?<!\\)/", r"\/", key)
    return f"/{escaped}/{'' if case_sensitive else 'i'}"


def kobold_entry(cursor: Cursor, entry_id: str) -> LoreEntry:
    """A KoboldAI entry: keys in one text, or in a list since United."""
    if cursor.flag("selective"):
        _notice_unused(cursor, "keysecondary")
    _notice_unused(cursor, "keyanti")
    return LoreEntry(
        id=cursor.ident("uid") or entry_id,
        name=cursor.text("comment"),
        text=cursor.good_text("content"),
        keys=keys_of(cursor, "key"),
        enabled=not cursor.flag("widisabled"),
        constant=cursor.flag("constant"),
    )


def _notice_unused(cursor: Cursor, key: str) -> None:
    """Add a notice about the keys ``key``, by which an entry would apply less often."""
    if keys_of(cursor, key):
        cursor.add_notice("not used; the entry applies by its first keys alone", key)


def keys_of(cursor: Cursor, key: str) -> list[str]:
    """Keys from a list, or from one text with commas; regular expressions may contain commas."""
    value = cursor.raw(key)
    if isinstance(value, list):
        return [text for text in as_list(value) if isinstance(text, str) and text.strip()]
    text = cursor.text(key)
    if text.strip().startswith("/"):
        return [text.strip()]
    return [part.strip() for part in text.split(",") if part.strip()]


WORLD_INFO_NAME = "worldinfo"
BOOK_SPEC = "lorebook_v3"
"""What a lorebook file of the third card specification says in ``spec``; the book is under ``data``."""


def matches_world_info(document: Document) -> bool:
    entries = document.object.get("entries")
    if isinstance(entries, dict):
        return not entries or _any_has(list(as_object(entries).values()), {"key", "content"})
    return document.object.get("spec") == BOOK_SPEC or _is_book(document.object)


def _is_book(fields: JsonObject) -> bool:
    entries = as_list(fields.get("entries"))
    return any({"keys", "content"} <= as_object(entry).keys() for entry in entries)


def _any_has(members: list[Any], keys: set[str]) -> bool:
    return any(keys & as_object(member).keys() for member in members)


def read_world_info(document: Document) -> StoryDraft:
    whole = top(document)
    nested = document.object.get("spec") == BOOK_SPEC
    book = whole.need_object("data") if nested else whole
    draft = Grower().draft()
    read_book(draft, book, "world")
    draft.title = book.text("name")
    return draft


def read_book(draft: StoryDraft, book: Cursor, prefix: str) -> None:
    """Add the entries of a book to the lore; those without an id are numbered after ``prefix``."""
    budget = book.raw("token_budget")
    if type(budget) is int and budget > 0:
        draft.root.settings.lore_budget = book.integer("token_budget")
    if isinstance(book.raw("entries"), dict):
        add_lore(draft, each(book, "entries", tavern_entry))
    else:
        add_lore(draft, each(book, "entries", lambda entry, place: card_entry(entry, f"{prefix}-{place}")))


WORLD_INFO = Format(
    WORLD_INFO_NAME,
    "SillyTavern world info, character lorebook",
    ".json",
    matches_world_info,
    read_world_info,
)
