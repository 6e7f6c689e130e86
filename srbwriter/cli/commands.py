"""The table of commands. Each lives in a module of its own, which is loaded only when it is called for."""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from srbwriter.config import Settings, Table


class Module(Protocol):
    """What the module of a command provides."""

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
    """A command, what it is good for in one line, and where it lives."""

    name: str
    summary: str
    module: str

    def load(self) -> Module:
        return cast(Module, import_module(self.module))


COMMANDS = {
    command.name: command
    for command in (
        Command("write", "write branches of a prompt to standard output", "srbwriter.cli.write"),
        Command("new", "begin a story in the library", "srbwriter.cli.stories.new"),
        Command("open", "open the terminal app on a story", "srbwriter.cli.stories.open"),
        Command("list", "list the stories of the library", "srbwriter.cli.stories.list"),
        Command("info", "say what is in a story", "srbwriter.cli.stories.info"),
        Command("rename", "give a story another title", "srbwriter.cli.stories.rename"),
        Command("export", "write a story as a book, a page, text or JSON", "srbwriter.cli.stories.export"),
        Command("import", "make a story of a file of another program", "srbwriter.cli.stories.importing"),
        Command("check", "go over the files of stories", "srbwriter.cli.stories.check"),
        Command("backup", "list, make and restore copies of a story", "srbwriter.cli.stories.backup"),
        Command("models", "list the models of this machine, choose one, get others", "srbwriter.cli.models"),
    )
}

DEFAULT = Command("", "open the terminal app, or serve", "srbwriter.cli.app")
"""What runs when no command is named."""


def listing() -> str:
    """The commands for ``--help``."""
    rows = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS.values())
    return (
        f"commands, each with a --help of its own:\n{rows}\n\n"
        "`srbwriter write --help` also lists the flags of all samplers, which are taken here too."
    )
