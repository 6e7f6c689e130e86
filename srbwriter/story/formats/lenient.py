"""Reading a list member by member: what cannot be read is left out, told to the writer, and kept.

One bad entry must not cost the other nine hundred.  It knows cursors and drafts, and no single format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, cast

from srbwriter.story.draft import DraftNode, JsonObject, LoreEntry, StoryDraft, foreign, keep_foreign
from srbwriter.story.formats.build import notice
from srbwriter.story.formats.cursor import Cursor
from srbwriter.story.formats.errors import FormatError

MOST_NOTICES = 10
"""Members that are named one by one; of the others only the count is told."""

MOST_NAMES = 5
"""Names that a notice about several entries gives."""

LEFT_OUT = "left_out"
"""Where the members that were left out are kept among the foreign fields: place → value."""

SWITCHED_OFF = "switched_off"
"""The mark, among an entry's foreign fields, of one that was on in its file."""

Member = TypeVar("Member")


class LeftOut:
    """What could not be read of one file."""

    def __init__(self) -> None:
        self._notices: list[str] = []
        self._values: JsonObject = {}

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, place: str, value: Any, reason: str) -> None:
        """Leave out the value at ``place``; the reason is for the writer."""
        self._notices.append(f"{place} was left out: {reason}. It is kept with the story.")
        self._values[place] = value

    def remark(self, words: str) -> None:
        """Tell something of a value that is kept elsewhere."""
        self._notices.append(words)

    def add_error(self, place: str, value: Any, error: FormatError) -> None:
        where = "" if error.place == place else f" at {error.place}"
        self.add(place, value, f"expected {error.expected}{where}")

    def members(self, cursor: Cursor, key: str, read: Callable[[Cursor, str], Member]) -> list[Member]:
        """The members of a list of objects, or of an object of them, each as ``read`` makes it.

        ``read`` gets the member and its index or name; a member that is no object, or for which it raises
        :class:`FormatError`, is left out.  A missing list, or ``null``, is empty; anything else is left out.
        """
        value = cursor.raw(key)
        if isinstance(value, dict):
            pairs = [(name, f"{key}.{name}", inner) for name, inner in cast(JsonObject, value).items()]
        elif isinstance(value, list):
            inners = enumerate(cast(list[Any], value))
            pairs = [(str(index), f"{key}[{index}]", inner) for index, inner in inners]
        else:
            if value is not None:
                self.add(cursor.place_of(key), value, "expected a list")
            return []
        found: list[Member] = []
        for name, step, inner in pairs:
            try:
                found.append(read(Cursor(inner, cursor.file, step, cursor), name))
            except FormatError as error:
                self.add_error(cursor.place_of(step), inner, error)
        return found

    def texts(self, cursor: Cursor, key: str) -> list[str]:
        """The texts of a list; members that are none are left out.  A missing list, or ``null``, is empty."""
        value = cursor.raw(key)
        if not isinstance(value, list):
            if value is not None:
                self.add(cursor.place_of(key), value, "expected a list of texts")
            return []
        found: list[str] = []
        for index, item in enumerate(cast(list[Any], value)):
            if isinstance(item, str):
                found.append(item)
            else:
                self.add(cursor.place_of(f"{key}[{index}]"), item, "expected a text")
        return found

    def tell(self, draft: StoryDraft, format_name: str) -> None:
        """Put the notices and the values into the draft, after everything else of this format."""
        for words in self._notices[:MOST_NOTICES]:
            notice(draft, words)
        more = len(self._notices) - MOST_NOTICES
        if more > 0:
            notice(draft, f"{more} more were left out in the same way; they are kept with the story.")
        if self._values:
            fields = {**foreign(draft.meta, format_name), LEFT_OUT: self._values}
            keep_foreign(draft.meta, format_name, fields)


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
    names = [entry.name or entry.id for entry in entries]
    shown = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
    one = len(names) == 1
    subject = f"The lorebook entry {shown} has" if one else f"{len(names)} lorebook entries ({shown}) have"
    verb, them = ("was", "it") if one else ("were", "them")
    return f"{subject} no keys and {verb} switched off: give {them} keys, or make {them} constant."
