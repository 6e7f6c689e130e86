"""``srbwriter open``: the terminal app on a story, by its name or its path."""

from __future__ import annotations

import argparse

from srbwriter.cli import app
from srbwriter.cli.flags import add_keys
from srbwriter.config import Settings, Table
from srbwriter.config.keys import SECTIONS

DESCRIPTION = """\
Open the terminal app on a story of the library, or on a file.

  srbwriter open orchard
  srbwriter open "The Orchard" -m novelist
  srbwriter open drafts/orchard.srbw --n 6"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help="title, name or file; a file that is missing is made")
    add_keys(parser, table, SECTIONS)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    return app.open_app(arguments.story, settings)
