"""The commands ``export`` and ``import``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.stories import STORY, check_new, find_story
from srbwriter.config import Settings, Table
from srbwriter.story import DamagedStory, StoryError, library

_STREAM = Path("-")


def _add_format(parser: argparse.ArgumentParser, words: str, names: list[str]) -> None:
    from srbwriter.formats import ALIASES

    def whole(name: str) -> str:
        return ALIASES.get(name, name)

    words = f"{words}: {', '.join(names)}"
    parser.add_argument("--format", metavar="NAME", type=whole, choices=names, help=words)


def export_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    from srbwriter import formats

    parser.add_argument("story", metavar="STORY", help=STORY)
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, default=_STREAM,
        help="file to write; - or nothing is standard output",
    )  # fmt: skip
    _add_format(parser, "its format, if the extension does not say it", [f.name for f in formats.writable()])
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run_export(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Write a story as a book, text or JSON. The format follows from the file's extension, or is named.

      srbwriter export orchard -o orchard.epub
      srbwriter export orchard.srbw -o orchard.json
      srbwriter export orchard -o - --format text | wc -w
    """
    from srbwriter import formats
    from srbwriter.formats import transfer

    output: Path = arguments.output
    force: bool = arguments.force
    streamed = output == _STREAM
    form = formats.by_name(arguments.format) if arguments.format else formats.for_file(output)
    if form is None and not streamed:
        raise Failure(f"{formats.no_extension(output)}, or --format", Exit.USAGE)
    form = form or formats.by_name("markdown")
    if output.is_file() and not force:
        raise Failure(f"{output} is there already; --force replaces it", Exit.USAGE)
    source = find_story(arguments.story)
    try:
        if streamed:
            _, data = transfer.rendered(source, form.name)
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
        else:
            transfer.Export(source, output, form.name, force).run()
    except DamagedStory as error:
        raise Failure(f"{source} is damaged: {error.problem}", Exit.DAMAGED) from error
    return Exit.OK


def import_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    from srbwriter import formats

    parser.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="file or folder; - is standard input"
    )
    parser.add_argument("--as-one", action="store_true", help="make one story of all files, each a chapter")
    parser.add_argument("--title", metavar="TITLE", default="", help="title instead of the file's own")
    parser.add_argument(
        "--encoding", metavar="NAME", default="", help="encoding of a text that is not in UTF: cp1252 …"
    )
    forms = [form.name for form in (*formats.FORMATS, *formats.FOLDERS)]
    _add_format(parser, "read it as this format, whatever it looks like", forms)
    parser.add_argument(
        "-o", "--output", metavar="STORY", type=Path, help="story to make, outside the library"
    )


def run_import(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Make a story of a file or a project: Word, OpenDocument, EPUB, HTML, Markdown, text, Scrivener,
    Obsidian, Loom, mikupad, Kobold Lite, SillyTavern, NovelAI, ChatGPT, Claude and more.

      srbwriter import novel.docx
      srbwriter import chapters/*.md
      srbwriter import one.md novel.docx --as-one --title "The Orchard"
      srbwriter import Novel.scriv
      srbwriter import --encoding cp1252 old.txt
      srbwriter import chat.jsonl --title "The Orchard" -o orchard.srbw
      curl -s https://example.org/tale.txt | srbwriter import -
    """
    from srbwriter import formats
    from srbwriter.formats import transfer

    named: list[Path] = arguments.files
    output: Path | None = arguments.output
    as_one: bool = arguments.as_one
    check_new(output)
    code = Exit.OK
    for file, *more in [named] if as_one else [[file] for file in named]:
        work = transfer.Import(
            file, paths.library_dir(), output, arguments.title, encoding=arguments.encoding,
            form=arguments.format or "", as_one=as_one, more=tuple(more),
        )  # fmt: skip
        if file == _STREAM:
            data = sys.stdin.buffer.read()
            work = replace(work, file=Path("standard input"), data=data)
        try:
            landed = work.run()
        except (StoryError, formats.FormatError) as error:  # the other files are imported
            say(str(error))
            code = Exit.ERROR
            continue
        library.remember(landed.path)
        print(landed.path)
        for notice in landed.notices:
            say(f"{work.file}: {notice}")
    return code
