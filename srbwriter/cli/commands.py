"""The table of commands. Each lives in a module of its own, which is loaded only when it is called for."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

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


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    summary: str
    module: str

    def load(self) -> Module:
        return cast(Module, import_module(self.module))


COMMANDS = {
    command.name: command
    for command in (Command("write", "write branches of a prompt to standard output", "srbwriter.cli.write"),)
}

DEFAULT = Command("", "open the terminal app, or serve", "srbwriter.cli.app")
"""What runs when no command is named."""


def listing(commands: Iterable[Command]) -> str:
    """The commands for ``--help``."""
    return "commands:\n" + "\n".join(f"  {command.name:<10} {command.summary}" for command in commands)
