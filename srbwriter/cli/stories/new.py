"""``srbwriter new``: an empty story."""

from __future__ import annotations

import argparse
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit, Failure
from srbwriter.cli.stories.finding import opened
from srbwriter.config import Settings, Table
from srbwriter.story import Story, library

DESCRIPTION = """\
Begin a story in the library, and print where it is.

  srbwriter new "The Orchard"
  srbwriter new "The Orchard" -o orchard.srbw
  srbwriter open "$(srbwriter new "The Orchard")\""""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("title", metavar="TITLE", help="title of the story")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, help="file to make, outside the library")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    title = " ".join(arguments.title.split())
    if not title:
        raise Failure('a story needs a title: srbwriter new "The Orchard"', Exit.USAGE)
    path: Path | None = getattr(arguments, "output", None)
    if path is None:
        path = library.free_path(paths.library_dir(), title)
        path.parent.mkdir(parents=True, exist_ok=True)
    with Story.create(path, title) as story:
        opened(story.file, story.title)
        print(story.file)
    return Exit.OK
