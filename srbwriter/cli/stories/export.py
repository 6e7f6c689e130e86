"""``srbwriter export``: a story as a file for readers and for other programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.stories.finding import find_story
from srbwriter.cli.stories.forms import listing, named
from srbwriter.config import Settings, Table

if TYPE_CHECKING:
    from srbwriter.story.formats import Format

DESCRIPTION = """\
Write a story as a book, a page, text or JSON. The format follows from the file's extension, or is named.

  srbwriter export orchard -o orchard.epub
  srbwriter export orchard -o orchard.docx
  srbwriter export orchard.srbw -o orchard.json
  srbwriter export orchard -o orchard.loom.json
  srbwriter export orchard -o - --format text | wc -w"""

_STANDARD_OUTPUT = Path("-")
_BINARY = (".docx", ".epub")


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", nargs="?", help="title, name or file of a story")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=_STANDARD_OUTPUT,
        help="file to write; - or nothing is standard output",
    )  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help="a format's name; `--format list` lists them")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.story import DamagedStory, formats, transfer

    name: str | None = getattr(arguments, "format", None)
    if name == "list":
        print(listing(formats.writable()))
        return Exit.OK
    if getattr(arguments, "story", None) is None:
        raise Failure("which story? srbwriter export STORY -o FILE", Exit.USAGE)
    output: Path = arguments.output
    force: bool = getattr(arguments, "force", False)
    form = named(name, formats.writable(), "export to") if name else _by_file(output)
    _refuse_early(output, form, force=force)
    source = find_story(arguments.story)
    try:
        if output == _STANDARD_OUTPUT:
            _, data = transfer.rendered(source, form.name)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            transfer.carry_out(transfer.Export(source, output, form.name, force))
    except DamagedStory as error:
        raise Failure(f"{source} is damaged: {error.problem}", Exit.DAMAGED) from error
    return Exit.OK


def _refuse_early(output: Path, form: Format, *, force: bool) -> None:
    """Raise Failure or StoryError before any work for what could not be written."""
    if output == _STANDARD_OUTPUT:
        if form.extension in _BINARY and sys.stdout.isatty():
            raise Failure(f"{form.label} is not for a terminal; name a file with -o", Exit.USAGE)
        return
    from srbwriter.story import transfer

    if output.exists() and not force:
        raise Failure(f"{output} is there already; --force replaces it", Exit.USAGE)
    transfer.check_target(output, force=force)


def _by_file(output: Path) -> Format:
    """The format that the file's name says; standard output has none and gets Markdown."""
    from srbwriter.story import formats

    if output == _STANDARD_OUTPUT:
        return formats.by_name("markdown")
    form = formats.for_file(output)
    if form is None:
        raise Failure(f"{formats.no_extension(output)}, or --format", Exit.USAGE)
    return form
