"""``srbwriter import``: stories from the files of other programs, recognised by what is in them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.stories.finding import opened
from srbwriter.config import Settings, Table

DESCRIPTION = """\
Make a story of a file: Loom, Loomsidian, mikupad, KoboldAI, SillyTavern, NovelAI, Markdown, text and more.

  srbwriter import tree.json
  srbwriter import chapters/*.md
  srbwriter import chat.jsonl --title "The Orchard" -o orchard.srbw
  curl -s https://example.org/tale.txt | srbwriter import -"""

_STANDARD_INPUT = Path("standard input")


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path, help="file; - is standard input")
    parser.add_argument("--title", metavar="TITLE", help="title instead of the file's own")
    parser.add_argument(
        "-o", "--output", metavar="STORY", type=Path, help="story to make, outside the library"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    output: Path | None = getattr(arguments, "output", None)
    if output is not None and len(arguments.files) > 1:
        raise Failure("-o makes one story, and several files were given", Exit.USAGE)
    for file in arguments.files:
        _import(file, output, getattr(arguments, "title", None))
    return Exit.OK


def _import(file: Path, output: Path | None, title: str | None) -> None:
    from srbwriter.story import transfer

    folder = paths.library_dir()
    if str(file) == "-":
        data = sys.stdin.buffer.read()
        work = transfer.Import(_STANDARD_INPUT, folder, output, title or "", data, "Imported story")
    else:
        work = transfer.Import(file, folder, output, title or "")
    landed = transfer.carry_out(work)
    opened(landed.path, landed.title)
    print(landed.path)
    for notice in landed.notices:
        say(f"{file}: {notice}")
