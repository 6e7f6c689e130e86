"""The table of commands. A command's module is imported only when the command runs."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from inspect import cleandoc
from typing import NamedTuple

from srbwriter.config import Settings, Table


class Face(NamedTuple):
    """What a command is made of."""

    description: str
    configure: Callable[[argparse.ArgumentParser, Table], None]
    """Adds the command's own arguments, and the sections of settings that it accepts."""
    run: Callable[[argparse.Namespace, Settings], int]
    """Runs the command and returns an exit code."""


class Command(NamedTuple):
    """A command: its name, a one-line summary, and where it is: ``module:name``.

    In that module ``run_name`` runs it, and has its description; ``name_arguments`` adds its arguments. A
    command with ``examines`` writes nothing, not even a log. It runs even if the settings are invalid, and
    gets the problems as warnings.
    """

    name: str
    summary: str
    place: str
    examines: bool = False

    def load(self) -> Face:
        place, _, name = self.place.partition(":")
        module = import_module(f"srbwriter.cli.{place}")
        run = getattr(module, f"run_{name}")
        return Face(cleandoc(run.__doc__ or ""), getattr(module, f"{name}_arguments"), run)


COMMANDS = {
    command.name: command
    for command in (
        Command("write", "write branches of a prompt to standard output", "write:write"),
        Command("new", "create a story in the library", "stories:new"),
        Command("open", "open the terminal app on a story", "app:open"),
        Command("list", "list the stories of the library", "stories:list"),
        Command("info", "describe a story", "stories:info"),
        Command("rename", "change the title of a story", "stories:rename"),
        Command("export", "write a story as a book, text or JSON", "stories:export"),
        Command("import", "create a story from a file of another program", "stories:import"),
        Command("check", "check the files of stories for damage", "stories:check"),
        Command("backup", "list, make and restore copies of a story", "copies:backup"),
        Command("delete", "take a story out of the library; it can be restored", "copies:delete"),
        Command("models", "list the models of this machine, choose one, get others", "models:models"),
        Command(
            "doctor", "find problems of this installation, and the commands that fix them", "doctor:doctor",
            examines=True,
        ),
        Command("completion", "make bash, zsh or fish complete commands and flags", "help:completion"),
        Command("help", "explain the program, or a command", "help:help"),
    )
}  # fmt: skip

DEFAULT = Command("", "open the terminal app, or serve", "app:app")
"""The command that runs when none is named."""


def listing() -> str:
    """Return the list of commands for ``--help``."""
    rows = "\n".join(f"  {command.name:<10} {command.summary}" for command in COMMANDS.values())
    return (
        f"commands, each with a --help of its own:\n{rows}\n\n"
        "`srbwriter write --help` also lists the flags of all samplers, which are taken here too."
    )
