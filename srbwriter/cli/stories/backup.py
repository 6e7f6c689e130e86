"""``srbwriter backup``: the copies of a story. A copy is only ever restored as a story of its own."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_actions
from srbwriter.cli.stories.finding import find_story, opened
from srbwriter.config import Settings, Table
from srbwriter.story import NotAStory, NotSaved, Story, library
from srbwriter.story.backup import Backup, backups, restore, snapshot
from srbwriter.story.transfer import TransferError

DESCRIPTION = """\
List, make and restore copies of a story. Restoring makes another story and changes neither.

  srbwriter backup list orchard
  srbwriter backup make orchard "before the rewrite"
  srbwriter backup restore orchard 2
  srbwriter backup restore orchard 2 -o old-orchard.srbw"""


def configure(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    listed = actions("list", "list copies, the newest first", "Without a story: those of all stories.")
    listed.add_argument("story", metavar="STORY", nargs="?", help="title, name or file of a story")
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    made = actions("make", "make a copy that stays until you delete it")
    made.add_argument("story", metavar="STORY", help="title, name or file of a story")
    made.add_argument("name", metavar="NAME", nargs="?", default="by hand", help="what to call the copy")
    restored = actions("restore", "make a story of a copy")
    restored.add_argument(
        "story", metavar="STORY", help="title, name or file of a story, or of a copy itself"
    )
    restored.add_argument(
        "number", metavar="NUMBER", nargs="?", type=int, default=1, help="number in its list; 1 is the newest"
    )
    restored.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file to make, outside the library"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    match arguments.action:
        case "make":
            _make(arguments)
        case "restore":
            _restore(arguments)
        case _:
            _list(arguments)
    return Exit.OK


def _list(arguments: argparse.Namespace) -> None:
    named: str | None = getattr(arguments, "story", None)
    found = _copies(named) if named else _all_copies()
    if getattr(arguments, "json", False):
        print(document([{"path": str(c.path), "name": c.name, "at": c.at, "size": c.size} for c in found]))
    elif found:
        print(columns([("number", "made", "story", "name", "file"), *_rows(found)], right=(0,)))
    else:
        say("there are no copies" + (f" of {named}; `srbwriter backup make` makes one" if named else ""))


def _rows(found: list[Backup]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, copy in enumerate(found, 1):
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(copy.at))
        rows.append((str(number), made, _title(copy), copy.name or "daily", str(copy.path)))
    return rows


def _copies(named: str) -> list[Backup]:
    """The copies of a story, newest first. Raises Failure or StoryError."""
    with Story.open(find_story(named), readonly=True) as story:
        return backups(story.backup_folder(paths.backup_dir()))


def _all_copies() -> list[Backup]:
    """The copies of all stories, also of those whose file is gone."""
    folders = paths.backup_dir().iterdir() if paths.backup_dir().is_dir() else ()
    found = [copy for folder in folders for copy in backups(folder)]
    return sorted(found, key=lambda copy: copy.at, reverse=True)


def _title(copy: Backup) -> str:
    try:
        return library.info(copy.path).title
    except NotAStory:
        return "?"


def _make(arguments: argparse.Namespace) -> None:
    with Story.open(find_story(arguments.story), readonly=True) as story:
        if story.damage is not None:
            raise Failure(f"{story.file} is damaged, and was not copied: {story.damage}", Exit.DAMAGED)
        folder = story.backup_folder(paths.backup_dir())
        try:
            print(snapshot(story.file, folder, arguments.name))
        except NotSaved as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise Failure(f"no copy was made; {TransferError.of(folder, error.__cause__)}") from error


def _restore(arguments: argparse.Namespace) -> None:
    copy = _chosen(arguments)
    target: Path | None = getattr(arguments, "output", None)
    title = f"{_title(copy)} {time.strftime('%Y-%m-%d %H.%M', time.localtime(copy.at))}"
    with Story.open(restore(copy.path, target or library.free_path(paths.library_dir(), title))) as story:
        story.rename(title)  # or two stories would go by one name
        opened(story.file, title)
        print(story.file)


def _chosen(arguments: argparse.Namespace) -> Backup:
    story: str = arguments.story
    number: int = arguments.number
    path = Path(story).expanduser().resolve()
    if path.is_relative_to(paths.backup_dir().resolve()):
        for copy in backups(path.parent):
            if copy.path == path:
                return copy
    found = _copies(story)
    if not 1 <= number <= len(found):
        there = f"there are {len(found)}" if found else "there are none"
        raise Failure(f"{story} has no copy number {number}; {there}", Exit.USAGE)
    return found[number - 1]
