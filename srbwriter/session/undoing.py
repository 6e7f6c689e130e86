"""Names of undoable actions, for the message that says what was undone or redone."""

from __future__ import annotations

from typing import cast

from srbwriter.story.history import Action, SetEntry, SetSettings
from srbwriter.story.model import LoreEntry, Settings, settings_from
from srbwriter.story.tree import BOOKMARK, CHAPTER

from .rounds import Round

_VERBS = {
    "type": "your words",
    "edit": "your words",
    "rewrite": "rewritten passage",
    "add": "added passage",
    "merge": "join",
    "delete": "deletion",
    "restore": "restored branch",
    "reorder": "new order",
    "settings": "settings",
    "properties": "title and author",
    "heading": "heading",
    "move_chapter": "move of a chapter",
}
"""Names of the story's verbs; a verb that is missing here is shown as it is."""

_SETTINGS = {
    "memory": "memory",
    "author_note": "author's note",
    "author_note_depth": "author's note",
    "lore_budget": "lorebook",
    "scan_depth": "lorebook",
    "template": "request",
    "request": "request",
    "framed": "request",
}
_FLAGS = {BOOKMARK: "bookmark", CHAPTER: "chapter"}


def name_action(action: Action, *rounds: Round | None) -> str:
    """Return what ``action`` did in a word or two, for example ``memory`` or ``pick branch 3``.

    ``rounds`` are those around the action; a picked branch is looked up in them.
    """
    if action.verb == "pick":
        numbers = (number for current in rounds if current is not None for number in _picked(action, current))
        return next((f"pick branch {number}" for number in numbers), "pick")
    changes = action.changes if action.verb in ("mark", "settings") else []
    names = dict.fromkeys(name for change in changes for name in _changed(change))
    return ", ".join(names) or _VERBS.get(action.verb, action.verb)


def _picked(action: Action, current: Round) -> list[int]:
    """Return the numbers of the branches that hold the picked node, counted from 1."""
    return [
        number
        for number, track in enumerate(current.tracks, 1)
        if any(node == action.node for node, _ in track.nodes)
    ]


def _changed(change: object) -> list[str]:
    """Return names of the marks or settings that ``change`` changes; empty for any other change."""
    if isinstance(change, SetSettings):
        return _changed_settings(settings_from(change.before), settings_from(change.after))
    if isinstance(change, SetEntry):
        names = [name for name in ("tags", "note", "title") if name in change.after]
        flags = int(cast(int, change.before.get("flags", 0))) ^ int(cast(int, change.after.get("flags", 0)))
        return [*names, *(name for flag, name in _FLAGS.items() if flags & flag)]
    return []


def _changed_settings(before: Settings, after: Settings) -> list[str]:
    names = [name for field, name in _SETTINGS.items() if getattr(before, field) != getattr(after, field)]
    entries = _changed_entries(before.lore, after.lore)
    if len(entries) == 1 and entries[0].name:
        names.append(f"lorebook entry {entries[0].name}")
    elif before.lore != after.lore:
        names.append("lorebook")
    return names


def _changed_entries(before: list[LoreEntry], after: list[LoreEntry]) -> list[LoreEntry]:
    """Return the entries that were added, changed or deleted, as they were last."""
    known = {entry.id: entry for entry in before}
    left = {entry.id for entry in after}
    changed = [entry for entry in after if known.get(entry.id) != entry]
    return changed + [entry for entry in before if entry.id not in left]
