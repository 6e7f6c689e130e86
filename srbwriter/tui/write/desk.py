"""The write screen with its commands bound to keys."""

from __future__ import annotations

from srbwriter.tui import actions as actions  # each of its modules declares commands
from srbwriter.tui.commands import anywhere_bindings, plain_bindings
from srbwriter.tui.write.screen import Branches, WriteScreen


class CommandedBranches(Branches):
    """The container of branches, with plain keys as commands."""

    BINDINGS = plain_bindings()


class Desk(WriteScreen):
    """The write screen that the app shows."""

    BINDINGS = anywhere_bindings()
    BRANCHES = CommandedBranches
