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
from srbwriter.story import NotSaved, Story, files, library
from srbwriter.story.backup import Backup, backups, deleted_from, discard, snapshot

_STORY = "title, name or file of a story"


def backup_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    parser.set_defaults(story=None, json=False)  # without an action the copies are listed
    listed = actions("list", "list copies, the newest first", "Without a story: those of all stories.")
    listed.add_argument("story", metavar="STORY", nargs="?", help=_STORY)
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    made = actions("make", "make a copy that stays until you delete it")
    made.add_argument("story", metavar="STORY", help=_STORY)
    made.add_argument("name", metavar="NAME", nargs="?", default="by hand", help="what to call the copy")
    restored = actions("restore", "make a story of a copy")
    restored.add_argument("story", metavar="STORY", help=f"{_STORY}, or of a copy itself")
    restored.add_argument(
        "number", metavar="NUMBER", nargs="?", type=_number, default=1,
        help="number in its list; 1 is the newest",
    )  # fmt: skip
    restored.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="file to make, outside the library"
    )


def _number(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number of the list")
    return int(text)


def run_backup(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List, make and restore copies of a story. Restoring makes another story and changes neither; a story
    that was deleted comes back as it was.

      srbwriter backup list orchard
      srbwriter backup make orchard "before the rewrite"
      srbwriter backup restore orchard 2
      srbwriter backup restore orchard 2 -o old-orchard.srbw
    """
    match arguments.action:
        case "make":
            _make_copy(arguments.story, arguments.name)
        case "restore":
            _restore_copy(arguments.story, arguments.number, path_for_story(arguments.output))
        case _:
            _list_copies(arguments.story, as_json=arguments.json)
    return Exit.OK


def _list_copies(named: str | None, *, as_json: bool) -> None:
    found = _copies(named) if named else _all_copies()
    if as_json:
        print(document([{"path": str(c.path), "name": c.name, "at": c.at, "size": c.size} for c in found]))
    elif found:
        rows = [("number", "made", "story", "name", "file")]
        for number, copy in enumerate(found, 1):
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(copy.at))
            rows.append((str(number), made, files.title_of(copy), copy.name or "daily", str(copy.path)))
        print(columns(rows, right=(0,)))
    else:
        say("there are no copies" + (f" of {named}; `srbwriter backup make` makes one" if named else ""))


def _copies(named: str) -> list[Backup]:
    """Return the copies of a story, newest first, also of a deleted story. Raises Failure or StoryError."""
    try:
        path = find_story(named)
    except Failure:
        deleted = [(copy, path) for copy in _all_copies() if (path := deleted_from(copy)) is not None]
        there = paths.expanded(named).resolve()
        titled = [(copy, files.title_of(copy), path) for copy, path in deleted]
        found = [copy for copy, path in deleted if path == there] or best_named(named.casefold(), titled)
        if not found:
            raise
        return found
    with Story.open(path, readonly=True) as story:
        return backups(story.backup_folder(paths.backup_dir()))


def _all_copies() -> list[Backup]:
    """Return the copies of all stories, including deleted ones."""
    folders = paths.backup_dir().iterdir() if paths.backup_dir().is_dir() else ()
    found = [copy for folder in folders for copy in backups(folder)]
    return sorted(found, key=lambda copy: copy.at, reverse=True)


def _make_copy(named: str, name: str) -> None:
    from srbwriter.formats.transfer import TransferError

    with Story.open(find_story(named), readonly=True) as story:
        if story.damage is not None:
            raise Failure(f"{story.file} is damaged, and was not copied: {story.damage}", Exit.DAMAGED)
        folder = story.backup_folder(paths.backup_dir())
        try:
            print(snapshot(story.file, folder, name))
        except NotSaved as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise Failure(f"no copy was made; {TransferError.of(folder, error.__cause__)}") from error


def _restore_copy(named: str, number: int, output: Path | None) -> None:
    path = paths.expanded(named).resolve()
    in_copies = path.is_relative_to(paths.backup_dir().resolve())
    copy = next((copy for copy in backups(path.parent) if copy.path == path), None) if in_copies else None
    if copy is None:
        found = _copies(named)
        if not 1 <= number <= len(found):
            there = f"there are {len(found)}" if found else "there are none"
            raise Failure(f"{named} has no copy number {number}; {there}", Exit.USAGE)
        copy = found[number - 1]
    if (original := deleted_from(copy)) is not None:
        title = files.title_of(copy)
        made = files.undelete(copy, output or original)
    else:
        title = files.moment_title(copy)  # so that two stories never have one title
        made = files.copy_as(copy.path, output or library.free_path(paths.library_dir(), title), title)
    made = made.resolve()
    opened(made, title)
    print(made)


def delete_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help=_STORY)


def run_delete(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Take a story out of the library. It stays among the copies until you remove it there, and can
    be restored.

      srbwriter delete orchard
      srbwriter backup list orchard
      srbwriter backup restore orchard
    """
    path = find_story(arguments.story).resolve()
    with Story.open(path, readonly=True) as story:
        if story.damage is not None:
            cure = "restore a copy of it, or remove the file yourself"
            raise Failure(f"{path} is damaged, and was not deleted — {cure}", Exit.DAMAGED)
        folder, name = story.backup_folder(paths.backup_dir()), story.title
    copy = discard(path, folder)
    recents().remove(path)
    print(copy)
    say(f"{name} was deleted; srbwriter backup restore {shlex.quote(str(copy))} brings it back")
    return Exit.OK
