"""The text under a writer's cursor: the joint before a first letter, places, and names of actions."""

from __future__ import annotations

import re
from bisect import bisect_left
from itertools import accumulate

from srbwriter.prose import sentence_ends
from srbwriter.story import NodeId, Story
from srbwriter.story.tree import Action

from .prefix import END_CHARS
from .round import Round

_LETTER = re.compile(r"[^\W_]|[“\"'‘«—–]")
_ACTIONS = {
    "type": "your words", "edit": "your words", "paste": "paste", "rewrite": "text by the model",
    "add": "added passage", "delete": "deletion", "restore": "restored branch",
    "move_chapter": "move of a chapter",
}  # fmt: skip
"""Names of the story's verbs; a verb that is missing here is shown as it is."""


def joint(story: Story, current: Round | None, place: int, letters: str) -> str:
    """Return what separates ``letters`` typed at ``place`` from a sentence that others have ended there.

    It is what a branch of ``current`` would begin with: a space, or a new line. A space parts a capital from
    a word, too; anywhere else it is empty.
    """
    if story.node(story.current).author not in ("model", "imported") or not _LETTER.match(letters):
        return ""
    end = story.text(story.current)[-END_CHARS:]
    if place != story.chars(story.current):
        return ""
    if sentence_ends(end)[-1:] != [len(end)]:
        return " " if end[-1:].islower() and letters[0].isupper() else ""
    branches = current.branches if current is not None and current.parent == story.current else []
    texts = [branch.text for branch in branches]
    begun = [text[: len(text) - len(text.lstrip())] for text in texts if text.strip()]
    return next((blank for blank in begun if blank), " ")


def node_at(story: Story, place: int) -> tuple[NodeId, int]:
    """Return the node with the character before ``place`` of the text, and the offset after it."""
    path = story.path(story.current)
    ends = list(accumulate(len(node.text) for node in story.nodes(path)))
    index = min(bisect_left(ends, place), len(ends) - 1)
    return path[index], place - (ends[index - 1] if index else 0)


def name_action(action: Action, *rounds: Round | None) -> str:
    """Return what ``action`` did in a word or two, for example ``memory`` or ``pick branch 3``.

    ``rounds`` are those around the action; a picked branch is looked up in them.
    """
    if action.verb == "pick":
        for current in rounds:
            for number, track in enumerate(current.tracks if current is not None else (), 1):
                if any(node == action.node for node, _ in track.nodes):
                    return f"pick branch {number}"
        return "pick"
    return _ACTIONS.get(action.verb, action.verb)
