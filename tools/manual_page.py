"""The manual page, from the tables of commands and flags.

python -m tools.manual_page > share/man/man1/srbwriter.1
"""

from __future__ import annotations

from argparse_manpage.manpage import Manpage

from srbwriter import __version__
from srbwriter.cli import flags
from srbwriter.cli.commands import COMMANDS, DEFAULT
from srbwriter.cli.table import every_key

SUMMARY = "write a story with many live branches of a language model"


def page() -> str:
    """Return the page in the language of man."""
    words, _, own = DEFAULT.description.partition("\n\n")
    parser = flags.Parser("srbwriter", words)
    DEFAULT.configure(parser, every_key(brief=True))
    group = parser.add_argument_group("commands, each with a --help of its own")
    for command in COMMANDS.values():
        group.add_argument(command.name, help=command.summary, nargs="?")
    described = {"description": SUMMARY, "manual_title": "srbwriter", "date": f"version {__version__}"}
    commands = (command.description.partition("\n\n") for command in COMMANDS.values())
    examples = [own, *(f"{words}\n\n{lines}" for words, _, lines in commands)]
    return f"{Manpage(parser, described)}\n{_section('examples', examples)}\n{_exit_codes()}"


def _section(title: str, parts: list[str]) -> str:
    """Return a section of examples: prose, and lines as they are typed."""
    lines = [f".SH {title.upper()}"]
    for part in parts:
        for paragraph in part.split("\n\n"):
            typed = paragraph.startswith("  ")
            text = paragraph.replace("\\", "\\e").replace("-", "\\-")
            lines += [".PP", ".nf", text, ".fi"] if typed else [".PP", " ".join(text.split())]
    return "\n".join(lines)


def _exit_codes() -> str:
    rows = flags.exit_codes().partition("\n")[2].replace("-", "\\-")
    return f".SH EXIT STATUS\n.nf\n{rows}\n.fi"


if __name__ == "__main__":
    print(page())
