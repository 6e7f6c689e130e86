"""``srbwriter settings``: the reference of all settings."""

from __future__ import annotations

import argparse
import shutil
import textwrap

from srbwriter.cli.exits import Exit
from srbwriter.cli.flags import default_text, spellings
from srbwriter.config import Settings, Table
from srbwriter.config.keys import SECTIONS


def settings_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    words = f"only this one: {', '.join(SECTIONS)}"
    parser.add_argument("section", metavar="SECTION", nargs="?", choices=tuple(SECTIONS), help=words)


def run_settings(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List all settings by the section of config.toml: default, what they take, meaning, flags, variable.

      srbwriter settings
      srbwriter settings generation
    """
    width = min(shutil.get_terminal_size().columns, 110)
    for section in [arguments.section] if arguments.section else SECTIONS:
        print(f"[{section}]  {SECTIONS[section]}\n")
        for key in settings.table.section(section):
            default = f" = {text}" if (text := default_text(key)) else ""
            print(f"{key.name.partition('.')[2]}{default}    ({key.expected})")
            print(textwrap.fill(key.help, width, initial_indent="    ", subsequent_indent="    "))
            print(f"    {' '.join((*spellings(key), key.env))}\n")
    return Exit.OK
