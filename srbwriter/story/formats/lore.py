"""Lorebook entries on their way into a story.

It knows entries, cursors and drafts, and no single format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from srbwriter.story.formats.build import notice
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.errors import FormatError
from srbwriter.story.model import DraftNode, LoreEntry, StoryDraft, keep_foreign

MOST_NAMES = 5
"""Names that one notice gives."""

SWITCHED_OFF = "switched_off"
"""The mark, among an entry's foreign fields, of one that was on in its file."""

_PLACEHOLDER = re.compile(r"[$%]\{[^{}\n]+\}")

Member = TypeVar("Member")


def each(cursor: Cursor, key: str, read: Callable[[Cursor, str], Member]) -> list[Member]:
    """The objects of a list, or of an object, each as ``read`` makes it of the object and its place or name.

    One for which it raises :class:`FormatError` is left out and told.
    """
    found: list[Member] = []
    for name, member in cursor.good_members(key):
        try:
            found.append(read(member, name))
        except FormatError as error:
            member.leave_out(error)
    return found


def add_lore(draft: StoryDraft, entries: Iterable[LoreEntry], node: DraftNode | None = None) -> None:
    """Give the story, or what follows ``node``, these entries, each with an id of its own.

    An entry that nothing can call up (no keys, and not always in) is switched off, and the writer is told.
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
        keep_foreign(entry.meta, SWITCHED_OFF, {"enabled": True})
    if mute:
        notice(draft, _words_for_mute(mute))


def _words_for_mute(entries: list[LoreEntry]) -> str:
    shown = _some([entry.name or entry.id for entry in entries])
    one = len(entries) == 1
    subject = f"The lorebook entry {shown} has" if one else f"{len(entries)} lorebook entries ({shown}) have"
    verb, them = ("was", "it") if one else ("were", "them")
    return f"{subject} no keys and {verb} switched off: give {them} keys, or make {them} constant."


def tell_placeholders(draft: StoryDraft) -> None:
    """Tell of places to fill in, ``${name}``, which stand in the texts of a scenario as they are."""
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
