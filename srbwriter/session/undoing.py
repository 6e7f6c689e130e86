"""Names of undoable actions, for the message that says what was undone or redone."""

from __future__ import annotations

from srbwriter.story.tree import Action

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
    "heading": "heading",
    "move_chapter": "move of a chapter",
}
"""Names of the story's verbs; a verb that is missing here is shown as it is."""

_MARKS = {"bookmark": "bookmark", "labels": "tags", "note": "note", "title": "title"}


def name_action(action: Action, *rounds: Round | None) -> str:
    """Return what ``action`` did in a word or two, for example ``memory`` or ``pick branch 3``.

    ``rounds`` are those around the action; a picked branch is looked up in them.
    """
    if action.verb == "pick":
        numbers = (number for current in rounds if current is not None for number in _picked(action, current))
        return next((f"pick branch {number}" for number in numbers), "pick")
    names = dict.fromkeys(_MARKS[field] for _, field, _, _ in action.notes if field in _MARKS)
    return ", ".join(names if action.verb == "mark" else ()) or _VERBS.get(action.verb, action.verb)


def _picked(action: Action, current: Round) -> list[int]:
    """Return the numbers of the branches that hold the picked node, counted from 1."""
    return [
        number
        for number, track in enumerate(current.tracks, 1)
        if any(node == action.node for node, _ in track.nodes)
    ]
