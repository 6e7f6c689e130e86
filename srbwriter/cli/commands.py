"""The table of commands. A command's module is imported only when the command runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from srbwriter.config import Settings, Table


class Face(Protocol):
    """The interface of a command: a module, or a class in one."""

    DESCRIPTION: str

    @staticmethod
    def configure(parser: argparse.ArgumentParser, table: Table) -> None:
        """Add the command's own arguments and the sections of settings that it accepts."""
        ...

    @staticmethod
    def run(arguments: argparse.Namespace, settings: Settings) -> int:
        """Run the command and return an exit code."""
        ...


class Command(NamedTuple):
    """A command: its name, a one-line summary, and its location, ``module`` or ``module:class``.

    A command with ``examines`` writes nothing, not even a log. It runs even if the settings are invalid, and
    gets the problems as warnings.
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
        Command("lines", "talk in the line protocol on standard input and output", "lines"),
        Command("new", "create a story in the library", "stories:New"),
        Command("open", "open the terminal app on a story", "app:Open"),
        Command("list", "list the stories of the library", "stories:List"),
        Command("info", "describe a story", "stories:Info"),
        Command("rename", "change the title of a story", "stories:Rename"),
        Command("export", "write a story as a book, a page, text or JSON", "stories:Export"),
        Command("import", "create a story from a file of another program", "stories:Import"),
        Command("check", "check the files of stories for damage", "stories:Check"),
        Command("backup", "list, make and restore copies of a story", "copies:Backups"),
        Command("delete", "take a story out of the library; it can be restored", "copies:Delete"),
        Command("models", "list the models of this machine, choose one, get others", "models"),
        Command(
            "doctor",
            "find problems of this installation, and the commands that fix them",
            "doctor",
            examines=True,
        ),
        Command("completion", "make bash, zsh or fish complete commands and flags", "completion"),
        Command("help", "explain the program, or a command", "help"),
    )
}

DEFAULT = Command("", "open the terminal app, or serve", "app")
"""The command that runs when none is named."""


def listing() -> str:
    """Return the list of commands for ``--help``."""
    rows = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS.values())
    return (
        f"commands, each with a --help of its own:\n{rows}\n\n"
        "`srbwriter write --help` also lists the flags of all samplers, which are taken here too."
    )
