"""``srbwriter export``: a story as a file for readers and for other programs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.stories.finding import find_story
from srbwriter.config import Settings, Table
from srbwriter.paths import write_atomic

if TYPE_CHECKING:
    from srbwriter.story.formats import Format

DESCRIPTION = """\
Write a story as a book, a page, text or JSON. The format follows from the file's extension, or is named.

  srbwriter export orchard -o orchard.epub
  srbwriter export orchard.srbw -o orchard.json
  srbwriter export orchard -o tree.json --format loom
  srbwriter export orchard -o - --format text | wc -w"""

_STANDARD_OUTPUT = Path("-")
_BINARY = ".epub"


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help="title, name or file of a story")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=_STANDARD_OUTPUT,
        help="file to write; - or nothing is standard output",
    )  # fmt: skip
    parser.add_argument("--format", metavar="NAME", help="a format's name; `--format list` lists them")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    from srbwriter.story import Story, formats

    name: str | None = getattr(arguments, "format", None)
    if name == "list":
        print("\n".join(f"{form.name:<12}{form.extension:<8}{form.label}" for form in _writable()))
        return Exit.OK
    output: Path = arguments.output
    form = _by_name(name) if name else _by_extension(output)
    _refuse_early(output, form, force=getattr(arguments, "force", False))
    with Story.open(find_story(arguments.story), readonly=True) as story:
        if story.damage is not None:
            raise Failure(f"{story.file} is damaged: {story.damage}", Exit.DAMAGED)
        data = formats.write(story.to_draft(), form.name)
    if output == _STANDARD_OUTPUT:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_atomic(output, data)
    return Exit.OK


def _refuse_early(output: Path, form: Format, *, force: bool) -> None:
    """Raise Failure before any work for what could not be written."""
    if output == _STANDARD_OUTPUT:
        if form.extension == _BINARY and sys.stdout.isatty():
            raise Failure(f"{form.label} is not for a terminal; name a file with -o", Exit.USAGE)
    elif output.exists() and not force:
        raise Failure(f"{output} is there already; --force replaces it", Exit.USAGE)
    elif not output.parent.is_dir():
        raise Failure(f"{output.parent}: there is no such folder")


def _writable() -> list[Format]:
    from srbwriter.story.formats import FORMATS

    return [form for form in FORMATS if form.can_export]


def _by_name(name: str) -> Format:
    for form in _writable():
        if form.name == name:
            return form
    listed = ", ".join(form.name for form in _writable())
    raise Failure(f"no format to export to is called {name}; there are {listed}", Exit.USAGE)


def _by_extension(output: Path) -> Format:
    """The first format of that extension in the table; standard output has none and gets Markdown."""
    if output == _STANDARD_OUTPUT:
        return _by_name("markdown")
    for form in _writable():
        if form.extension == output.suffix.lower():
            return form
    known = " ".join(dict.fromkeys(form.extension for form in _writable()))
    raise Failure(
        f"{output}: no format has the extension {output.suffix or '(none)'}; use one of {known}, or --format",
        Exit.USAGE,
    )
