"""The commands ``backup`` and ``delete``. A deleted story is kept among the copies."""

from __future__ import annotations

import argparse
import shlex
import time
from pathlib import Path

from srbwriter import paths
from srbwriter.cli.columns import columns, document
from srbwriter.cli.exits import Exit, Failure, say
from srbwriter.cli.flags import add_actions
from srbwriter.cli.stories import best_named, find_story, opened, path_for_story, recents
from srbwriter.config import Settings, Table
from srbwriter.story import NotSaved, Story, StoryError, files, library
from srbwriter.story.backup import Backup, backups, deleted_from, discard, snapshot


class Backups:
    """``srbwriter backup``: lists, makes and restores copies. A copy is always restored as a new story."""

    DESCRIPTION = """\
List, make and restore copies of a story. Restoring makes another story and changes neither; a story that was
deleted comes back as it was.

  srbwriter backup list orchard
  srbwriter backup make orchard "before the rewrite"
  srbwriter backup restore orchard 2
  srbwriter backup restore orchard 2 -o old-orchard.srbw"""

    @staticmethod
    def configure(parser: argparse.ArgumentParser, table: Table) -> None:
        actions = add_actions(parser)
        parser.set_defaults(story=None, json=False)  # without an action the copies are listed
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
            "number", metavar="NUMBER", nargs="?", type=_number, default=1,
            help="number in its list; 1 is the newest",
        )  # fmt: skip
        restored.add_argument(
            "-o", "--output", metavar="FILE", type=Path, help="file to make, outside the library"
        )

    @staticmethod
    def run(arguments: argparse.Namespace, settings: Settings) -> int:
        match arguments.action:
            case "make":
                _make_copy(arguments)
            case "restore":
                _restore_copy(arguments)
            case _:
                _list_copies(arguments)
        return Exit.OK


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of the list")
    return int(text)


def _list_copies(arguments: argparse.Namespace) -> None:
    named: str | None = arguments.story
    found = _copies(named) if named else _all_copies()
    if arguments.json:
        print(document([{"path": str(c.path), "name": c.name, "at": c.at, "size": c.size} for c in found]))
    elif found:
        print(columns([("number", "made", "story", "name", "file"), *_rows_of(found)], right=(0,)))
    else:
        say("there are no copies" + (f" of {named}; `srbwriter backup make` makes one" if named else ""))


def _rows_of(found: list[Backup]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number, copy in enumerate(found, 1):
        made = time.strftime("%Y-%m-%d %H:%M", time.localtime(copy.at))
        rows.append((str(number), made, files.title_of(copy), copy.name or "daily", str(copy.path)))
    return rows


def _copies(named: str) -> list[Backup]:
    """Return the copies of a story, newest first, also of a deleted story. Raises Failure or StoryError."""
    try:
        path = find_story(named)
    except Failure:
        deleted = _deleted(named)
        if not deleted:
            raise
        return deleted
    with Story.open(path, readonly=True) as story:
        return backups(story.backup_folder(paths.backup_dir()))


def _means(named: str, copy: Path) -> bool:
    """Return whether ``backup restore`` with ``named`` would restore exactly the copy at that path."""
    try:
        found = _copies(named)
    except (Failure, StoryError):
        return False
    return bool(found) and found[0].path == copy


def _deleted(named: str) -> list[Backup]:
    """Return the deleted stories that match ``named``: a path, a title, or the start of a word of a title."""
    deleted = [(copy, path) for copy in _all_copies() if (path := deleted_from(copy)) is not None]
    there = paths.expanded(named).resolve()
    if at_path := [copy for copy, path in deleted if path == there]:
        return at_path
    return best_named(named.casefold(), [(copy, files.title_of(copy), path) for copy, path in deleted])


def _all_copies() -> list[Backup]:
    """Return the copies of all stories, including deleted ones."""
    folders = paths.backup_dir().iterdir() if paths.backup_dir().is_dir() else ()
    found = [copy for folder in folders for copy in backups(folder)]
    return sorted(found, key=lambda copy: copy.at, reverse=True)


def _make_copy(arguments: argparse.Namespace) -> None:
    from srbwriter.story.transfer import TransferError

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


def _restore_copy(arguments: argparse.Namespace) -> None:
    output = path_for_story(arguments.output)
    copy = _chosen_copy(arguments)
    if (original := deleted_from(copy)) is not None:
        title = files.title_of(copy)
        made = files.undelete(copy, output or original)
    else:
        title = files.moment_title(copy)  # so that two stories never have one title
        made = files.copy_as(copy.path, output or library.free_path(paths.library_dir(), title), title)
    made = made.resolve()
    opened(made, title)
    print(made)


def _chosen_copy(arguments: argparse.Namespace) -> Backup:
    story: str = arguments.story
    number: int = arguments.number
    path = paths.expanded(story).resolve()
    if path.is_relative_to(paths.backup_dir().resolve()):
        for copy in backups(path.parent):
            if copy.path == path:
                return copy
    found = _copies(story)
    if not 1 <= number <= len(found):
        there = f"there are {len(found)}" if found else "there are none"
        raise Failure(f"{story} has no copy number {number}; {there}", Exit.USAGE)
    return found[number - 1]


class Delete:
    """``srbwriter delete``: moves a story to the copies, from which it can be restored."""

    DESCRIPTION = """\
Take a story out of the library. It stays among the copies until you remove it there, and can
be restored.

  srbwriter delete orchard
  srbwriter backup list orchard
  srbwriter backup restore orchard"""

    @staticmethod
    def configure(parser: argparse.ArgumentParser, table: Table) -> None:
        parser.add_argument("story", metavar="STORY", help="title, name or file of a story")

    @staticmethod
    def run(arguments: argparse.Namespace, settings: Settings) -> int:
        path = find_story(arguments.story).resolve()
        with Story.open(path, readonly=True) as story:
            if story.damage is not None:
                cure = "restore a copy of it, or remove the file yourself"
                raise Failure(f"{path} is damaged, and was not deleted — {cure}", Exit.DAMAGED)
            folder, title = story.backup_folder(paths.backup_dir()), story.title
        copy = discard(path, folder)
        recents().remove(path)
        print(copy)
        name = title if _means(title, copy) else str(copy)
        say(f"{title} was deleted; srbwriter backup restore {shlex.quote(name)} brings it back")
        return Exit.OK
