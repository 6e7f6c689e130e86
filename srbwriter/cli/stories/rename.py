"""``srbwriter rename``: another title, and in the library another file name with it."""

from __future__ import annotations

import argparse
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.exits import Exit
from srbwriter.cli.stories.finding import find_story, opened, recents
from srbwriter.config import Settings, Table
from srbwriter.story import Story, library

DESCRIPTION = """\
Give a story another title. Its file gets a new name too if it is in the library.

  srbwriter rename "First story" "The Orchard"
  srbwriter rename orchard.srbw "The Orchard"
  srbwriter rename orchard "The Orchard" --keep-file"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help="title, name or file of a story")
    parser.add_argument("title", metavar="TITLE", help="its new title")
    parser.add_argument("--keep-file", action="store_true", help="leave the file where it is")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    path = find_story(arguments.story).resolve()
    with Story.open(path) as story:
        story.rename(arguments.title)
        title = story.title
    if path.parent == paths.library_dir().resolve() and not getattr(arguments, "keep_file", False):
        path = _moved(path, title)
    print(path)
    return Exit.OK


def _moved(path: Path, title: str) -> Path:
    target = library.free_path(path.parent, title)
    if _same_name(path, target):
        return path
    recents().remove(path)
    moved = library.move(path, target)
    opened(moved, title)
    return moved


def _same_name(path: Path, target: Path) -> bool:
    """Whether ``target`` is ``path`` with a number, because ``path`` has that name already."""
    base, _, number = target.stem.rpartition("-")
    return number.isdigit() and path.stem == base
