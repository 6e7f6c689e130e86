"""Handlers of keys. One module for each group of commands, in the order of menus, help and documentation.

A handler translates a key into one or two calls of the session and shows the result. Decisions that another
front end would need as well belong to the session.
"""

from srbwriter.tui.actions import (  # isort: skip - in order
    branches, story, chapters, book, stories, tree, knobs, ahead, tokens, bans,
    rewriting, wishes, steering, variety, view,
)  # fmt: skip
from srbwriter.tui.commands import COMMANDS

__all__ = [
    "COMMANDS", "ahead", "bans", "book", "branches", "chapters", "knobs",
    "rewriting", "steering", "stories", "story", "tokens",
    "tree", "variety", "view", "wishes",
]  # fmt: skip
