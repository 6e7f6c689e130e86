"""What keys do. A module for each group of commands, in the order of menus, help and documentation.

A handler translates a key into one or two verbs of the session and shows the result; it decides nothing that
another face would want too.
"""

from srbwriter.tui.actions import branches, exploring, tokens, story, stories, tree, knobs, view  # noqa: I001 - in order
from srbwriter.tui.commands import COMMANDS

__all__ = ["COMMANDS", "branches", "exploring", "knobs", "stories", "story", "tokens", "tree", "view"]
