"""Handlers of keys. One module for each group of commands, in the order of menus, help and documentation.

A handler translates a key into one or two calls of the session and shows the result. Decisions that another
front end would need as well belong to the session.
"""

from srbwriter.tui.actions import branches, story, instruments, book, view  # isort: skip - in order
from srbwriter.tui.commands import COMMANDS

__all__ = ["COMMANDS", "book", "branches", "instruments", "story", "view"]
