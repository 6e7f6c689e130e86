"""The table of commands. The module of each is loaded only when it is called for."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from srbwriter.config import Settings, Table


class Face(Protocol):
    """What a command provides: a module, or a class of one."""

    DESCRIPTION: str

    @staticmethod
    def configure(parser: argparse.ArgumentParser, table: Table) -> None:
        """Add the command's own arguments and the sections of settings it takes."""
        ...

    @staticmethod
    def run(arguments: argparse.Namespace, settings: Settings) -> int:
        """Do the work; returns an exit code."""
        ...


class Command(NamedTuple):
    """A command, what it is good for in one line, and where it lives: ``module`` or ``module:class``.

    One that only ``examines`` writes nothing, not even a log. It runs in spite of settings that cannot be
    used, and finds what is wrong with them among the warnings.
    """

    name: str
    summary: str
    place: str
    examines: bool = False

    def load(self) -> Face:
        module, _, name = self.place.partition(":")
        found = import_module(f"srbwriter.cli.{module}")
        return cast(Face, getattr(found, name) if name else found)


COMMANDS = {
    command.name: command
    for command in (
        Command("write", "write branches of a prompt to standard output", "write"),
        Command("lines", "a conversation in lines of text on standard input and output", "lines"),
        Command("new", "begin a story in the library", "stories:New"),
        Command("open", "open the terminal app on a story", "stories:Open"),
        Command("list", "list the stories of the library", "stories:List"),
        Command("info", "say what is in a story", "stories:Info"),
        Command("rename", "give a story another title", "stories:Rename"),
        Command("export", "write a story as a book, a page, text or JSON", "stories:Export"),
        Command("import", "make a story of a file of another program", "stories:Import"),
        Command("check", "go over the files of stories", "stories:Check"),
        Command("backup", "list, make and restore copies of a story", "copies:Backups"),
        Command("delete", "take a story out of the library; it can be restored", "copies:Delete"),
        Command("models", "list the models of this machine, choose one, get others", "models"),
        Command(
            "doctor", "say what needs care here, with the command that mends it", "doctor", examines=True
        ),
        Command("help", "explain the program, or a command", "help"),
    )
}

DEFAULT = Command("", "open the terminal app, or serve", "app")
"""What runs when no command is named."""


def listing() -> str:
    """The commands for ``--help``."""
    rows = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS.values())
    return (
        f"commands, each with a --help of its own:\n{rows}\n\n"
        "`srbwriter write --help` also lists the flags of all samplers, which are taken here too."
    )
