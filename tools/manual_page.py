"""The manual page, from the tables of commands and flags.

python -m tools.manual_page > share/man/man1/srbwriter.1
"""

from __future__ import annotations

from argparse_manpage.manpage import Manpage

from srbwriter import __version__
from srbwriter.cli import flags
from srbwriter.cli.commands import COMMANDS, DEFAULT
from srbwriter.cli.table import overview

SUMMARY = "write a story with many live branches of a language model"


def page() -> str:
    """Return the page in the language of man."""
    parser = flags.Parser("srbwriter", DEFAULT.load().description, flags.exit_codes())
    DEFAULT.load().configure(parser, overview())
    group = parser.add_argument_group("commands, each with a --help of its own")
    for command in COMMANDS.values():
        group.add_argument(command.name, help=command.summary, nargs="?")
    described = {"description": SUMMARY, "manual_title": "srbwriter", "date": f"version {__version__}"}
    return str(Manpage(parser, described))


if __name__ == "__main__":
    print(page())
