"""``srbwriter help`` and ``srbwriter completion``."""

from __future__ import annotations

import argparse

from srbwriter.cli import app, flags
from srbwriter.cli.commands import COMMANDS, DEFAULT
from srbwriter.cli.exits import Exit, Failure
from srbwriter.config import Settings, Table
from srbwriter.config.kinds import PATH

SHELLS = ("bash", "zsh", "fish")


def help_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("command", metavar="COMMAND", nargs="?", help="name of a command")


def run_help(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Explain the program, or one of its commands.

      srbwriter help
      srbwriter help export
    """
    from srbwriter.cli import main

    command: str | None = arguments.command
    if command is not None and command not in COMMANDS:
        raise Failure(f"no command is called {command} — `srbwriter help` lists them", Exit.USAGE)
    try:
        return main([*([command] if command else []), "--help"])
    except SystemExit as end:  # argparse exits after printing help
        return int(end.code or 0)


def completion_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("shell", metavar="SHELL", choices=SHELLS, help=f"one of {', '.join(SHELLS)}")


def run_completion(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Print a script that makes a shell complete commands, flags and their values.

      srbwriter completion bash > ~/.local/share/bash-completion/completions/srbwriter
      srbwriter completion zsh > ~/.zfunc/_srbwriter      with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
      srbwriter completion fish > ~/.config/fish/completions/srbwriter.fish
    """
    import shtab

    from srbwriter.cli.table import every_key

    table = every_key()
    whole = flags.Parser("srbwriter", DEFAULT.load().description)
    group = whole.add_subparsers(metavar="COMMAND", parser_class=flags.Parser)
    app.add_flags(whole, table)
    parsers = [whole]
    for command in COMMANDS.values():
        face = command.load()
        part = group.add_parser(command.name, help=command.summary, description=face.description)
        face.configure(part, table)
        parsers.append(part)
    for action, key in (pair for parser in parsers for pair in parser.keys_of_flags()):
        if key.kind.choices:
            action.choices = key.kind.choices
        elif key.kind is PATH:
            setattr(action, "complete", shtab.FILE)  # noqa: B010 — an attribute that shtab looks for
    print(shtab.complete(whole, arguments.shell))
    return Exit.OK
