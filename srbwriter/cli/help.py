"""``srbwriter help``: prints the same as ``--help``, for the program or for a command."""

from __future__ import annotations

import argparse

from srbwriter.cli.commands import COMMANDS
from srbwriter.cli.exits import Exit, Failure
from srbwriter.config import Settings, Table

DESCRIPTION = """\
Explain the program, or one of its commands.

  srbwriter help
  srbwriter help export"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="name of a command")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.cli import main

    command: str | None = arguments.command
    if command is not None and command not in COMMANDS:
        raise Failure(f"no command is called {command} — `srbwriter help` lists them", Exit.USAGE)
    try:
        return main([*([command] if command else []), "--help"])
    except SystemExit as end:  # argparse exits after printing help
        return int(end.code or 0)
