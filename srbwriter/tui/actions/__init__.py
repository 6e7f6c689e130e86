"""What keys do. A module for each group of commands, in the order of menus, help and documentation.

A handler translates a key into one or two verbs of the session and shows the result; it decides nothing that
another face would want too.
"""

from srbwriter.tui.actions import (  # isort: skip - in order
    branches, story, stories, tree, knobs, ahead, exploring, tokens, judging, view,
)  # fmt: skip
from srbwriter.tui.commands import COMMANDS

__all__ = [
    "COMMANDS", "ahead", "branches", "exploring", "judging", "knobs", "stories", "story", "tokens", "tree",
    "view",
]  # fmt: skip
