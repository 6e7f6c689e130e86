"""The table of commands. A command's module is imported only when the command runs."""

from __future__ import annotations

import argparse
from importlib import import_module
from textwrap import dedent
from typing import Any, NamedTuple

from srbwriter.config import Settings, Table


class ShellCommand(NamedTuple):
    """A command: its name, a one-line summary, and the module where it is.

    There ``run_NAME`` runs it and has its description, and ``NAME_arguments`` adds its arguments. A
    command with ``examines`` writes nothing, not even a log. It runs even if the settings are invalid, and
    gets the problems as warnings.
    """

    name: str
    summary: str
    module: str
    examines: bool = False

    def _function(self, form: str) -> Any:
        return getattr(import_module(f"srbwriter.cli.{self.module}"), form.format(self.name or "app"))

    @property
    def description(self) -> str:
        return dedent(self._function("run_{}").__doc__ or "").strip()

    def configure(self, parser: argparse.ArgumentParser, table: Table) -> None:
        """Add the command's own arguments, and the sections of settings that it accepts."""
        self._function("{}_arguments")(parser, table)

    def run(self, arguments: argparse.Namespace, settings: Settings) -> int:
        """Run the command and return its exit code."""
        return self._function("run_{}")(arguments, settings)


COMMANDS = {
    command.name: command
    for command in (
        ShellCommand("write", "write branches of a prompt to standard output", "write"),
        ShellCommand("new", "create a story in the library", "stories"),
        ShellCommand("open", "open the terminal app on a story", "app"),
        ShellCommand("list", "list the stories of the library", "stories"),
        ShellCommand("info", "describe a story, and set title and author", "stories"),
        ShellCommand("export", "write a story as a book, text or JSON", "transfers"),
        ShellCommand("import", "create a story from a file of another program", "transfers"),
        ShellCommand("check", "check the files of stories for damage", "stories"),
        ShellCommand("backup", "list, make and restore copies of a story", "copies"),
        ShellCommand("delete", "take a story out of the library; it can be restored", "copies"),
        ShellCommand("models", "list the models of this machine, choose one, get others", "models"),
        ShellCommand("settings", "list all settings: default, meaning, flag and variable", "settings", True),
        ShellCommand("doctor", "find problems of this installation, and what fixes them", "doctor", True),
        ShellCommand("completion", "make bash, zsh or fish complete commands and names", "completion", True),
    )
}

DEFAULT = ShellCommand("", "open the terminal app, or serve", "app")
"""The command that runs when none is named."""


def listing() -> str:
    """Return the list of commands for ``--help``."""
    rows = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS.values())
    return (
        f"commands, each with a --help of its own:\n{rows}\n\n"
        "`srbwriter write --help` also lists the flags of all samplers, which are taken here too."
    )
