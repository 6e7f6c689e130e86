"""``srbwriter completion``: prints a completion script for a shell."""

from __future__ import annotations

import argparse

from srbwriter.cli import app, flags
from srbwriter.cli.commands import COMMANDS, DEFAULT
from srbwriter.config import Settings, Table
from srbwriter.config.kinds import PATH

SHELLS = ("bash", "zsh", "fish")

DESCRIPTION = """\
Print a script that makes a shell complete commands, flags and their values.

  srbwriter completion bash > ~/.local/share/bash-completion/completions/srbwriter
  srbwriter completion zsh > ~/.zfunc/_srbwriter      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
  srbwriter completion fish > ~/.config/fish/completions/srbwriter.fish"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    import shtab

    from srbwriter.cli.table import every_key

    print(shtab.complete(whole_parser(every_key()), arguments.shell))
    return 0


def whole_parser(table: Table) -> flags.Parser:
    """Return one parser for the whole program, with the commands as subparsers."""
    whole = flags.parser("srbwriter", DEFAULT.load().DESCRIPTION)
    group = whole.add_subparsers(metavar="COMMAND")
    app.add_flags(whole, table)
    complete_values(whole)
    for command in COMMANDS.values():
        face = command.load()
        part = group.add_parser(command.name, help=command.summary, description=face.DESCRIPTION)
        face.configure(part, table)
        complete_values(part)
    return whole


def complete_values(parser: flags.Parser) -> None:
    """Tell shtab which words or files the flags of settings accept."""
    import shtab

    for action, key in parser.flags_of_keys().items():
        if key.kind.choices:
            action.choices = key.kind.choices
        elif key.kind is PATH:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 — an attribute that shtab looks for
