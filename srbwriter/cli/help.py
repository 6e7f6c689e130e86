"""``srbwriter help``: prints the same as ``--help``, for the program or for a command."""

from __future__ import annotations

import argparse
from difflib import get_close_matches

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
        near = get_close_matches(command, COMMANDS, n=3)
        cure = f"did you mean {' or '.join(near)}?" if near else "`srbwriter help` lists them"
        raise Failure(f"no command is called {command} — {cure}", Exit.USAGE)
    try:
        return main([*([command] if command else []), "--help"])
    except SystemExit as end:  # argparse exits after printing help
        return int(end.code or 0)
