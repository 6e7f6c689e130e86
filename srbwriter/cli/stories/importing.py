"""``srbwriter import``: stories from the files of other programs, recognised by what is in them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.stories.finding import opened
from srbwriter.cli.stories.forms import listing, named
from srbwriter.config import Settings, Table

DESCRIPTION = """\
Make a story of a file: Word, HTML, Markdown, text, Loom, mikupad, KoboldAI, SillyTavern, NovelAI and more.

  srbwriter import tree.json
  srbwriter import chapters/*.md
  srbwriter import novel.docx
  srbwriter import --encoding cp1252 old.txt
  srbwriter import chat.jsonl --title "The Orchard" -o orchard.srbw
  curl -s https://example.org/tale.txt | srbwriter import -"""

_STANDARD_INPUT = Path("standard input")


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path, help="file; - is standard input")
    parser.add_argument("--title", metavar="TITLE", help="title instead of the file's own")
    parser.add_argument("--encoding", metavar="NAME", help="encoding of a text that is not in UTF: cp1252 …")
    parser.add_argument(
        "--format", metavar="NAME", help="read it as this format, whatever it looks like; `list` lists them"
    )
    parser.add_argument(
        "-o", "--output", metavar="STORY", type=Path, help="story to make, outside the library"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.story import formats

    form: str = getattr(arguments, "format", "")
    if form == "list":
        print(listing(formats.readable()))
        return Exit.OK
    if form:
        named(form, formats.readable(), "import")
    encoding: str = getattr(arguments, "encoding", "")
    files: list[Path] = getattr(arguments, "files", [])
    if not files:
        raise Failure("which file? srbwriter import FILE", Exit.USAGE)
    output: Path | None = getattr(arguments, "output", None)
    if output is not None and len(files) > 1:
        raise Failure("-o makes one story, and several files were given", Exit.USAGE)
    for file in files:
        _import(file, output, getattr(arguments, "title", ""), encoding, form)
    return Exit.OK


def _import(file: Path, output: Path | None, title: str, encoding: str, form: str) -> None:
    from srbwriter.story import transfer

    folder = paths.library_dir()
    if str(file) == "-":
        data = sys.stdin.buffer.read()
        work = transfer.Import(
            _STANDARD_INPUT, folder, output, title, data, "Imported story", encoding, form
        )
    else:
        work = transfer.Import(file, folder, output, title, encoding=encoding, form=form)
    landed = transfer.carry_out(work)
    opened(landed.path, landed.title)
    print(landed.path)
    for notice in landed.notices:
        say(f"{file}: {notice}")
