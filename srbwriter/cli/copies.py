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
from srbwriter.cli.stories import STORY, find_story
from srbwriter.config import Settings, Table
from srbwriter.story import Story, library
from srbwriter.story.library import backups, discard, restore, snapshot


def backup_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    actions = add_actions(parser)
    parser.set_defaults(story=None, json=False)  # without an action the copies are listed
    listed = actions("list", "list the copies of a story, or of all, also deleted ones; the newest first")
    listed.add_argument("story", metavar="STORY", nargs="?", help=STORY)
    listed.add_argument("--json", action="store_true", help="print the list as JSON")
    made = actions("make", "make a copy that stays until you delete it")
    made.add_argument("story", metavar="STORY", help=STORY)
    made.add_argument("name", metavar="NAME", nargs="?", default="by hand", help="what to call the copy")
    restored = actions("restore", "make a story of a copy")
    restored.add_argument("copy", metavar="COPY", type=Path, help="file of a copy, as `list` shows it")


def run_backup(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    List, make and restore copies of a story. Restoring makes another story and changes neither; a story
    that was deleted comes back as it was.

      srbwriter backup list orchard
      srbwriter backup make orchard "before the rewrite"
      srbwriter backup restore COPY
    """
    match arguments.action:
        case "make":
            file, folder = _sound(arguments.story, "copied")
            print(snapshot(file, folder, arguments.name))
        case "restore":
            _restore(arguments.copy)
        case _:
            _list(arguments.story, as_json=arguments.json)
    return Exit.OK


def _sound(named: str, done: str) -> tuple[Path, Path]:
    """Return a story's file and the folder of its copies. Raises Failure if it is damaged."""
    with Story.open(find_story(named).resolve(), readonly=True) as story:
        if story.damage:
            problem = f"{story.file} is damaged, and was not {done}: {story.damage}"
            raise Failure(f"{problem} — `r` in the app continues in a copy with what is left", Exit.DAMAGED)
        return story.file, story.backup_folder(paths.backup_dir())


def _list(named: str | None, *, as_json: bool) -> None:
    folders = list(paths.backup_dir().iterdir()) if paths.backup_dir().is_dir() else []
    found = [copy for folder in folders for copy in backups(folder)]
    if named is not None:
        try:
            with Story.open(find_story(named), readonly=True) as story:
                found = backups(story.backup_folder(paths.backup_dir()))
        except Failure:
            found = [c for c in found if library.info(c.path).title.casefold() == named.casefold()]
            if not found:
                raise
    found.sort(key=lambda copy: copy.at, reverse=True)
    if as_json:
        print(document([{"path": str(c.path), "name": c.name, "at": c.at} for c in found]))
    elif found:
        rows = [("made", "story", "name", "copy")]
        for copy in found:
            made = time.strftime("%Y-%m-%d %H:%M", time.localtime(copy.at))
            title = library.info(copy.path).title
            rows.append((made, title, copy.name or "daily", shlex.quote(str(copy.path))))
        print(columns(rows))
    else:
        say("there are no copies" + (f" of {named}; `srbwriter backup make` makes one" if named else ""))


def _restore(file: Path) -> None:
    path = paths.expanded(file).resolve()
    copy = next((copy for copy in backups(path.parent) if copy.path.resolve() == path), None)
    if copy is None:
        raise Failure(f"{file}: there is no such copy — `srbwriter backup list` shows them", Exit.USAGE)
    made = restore(copy, paths.library_dir())
    library.remember(made)
    print(made.resolve())


def delete_arguments(parser: argparse.ArgumentParser, table: Table) -> None:
    parser.add_argument("story", metavar="STORY", help=STORY)


def run_delete(arguments: argparse.Namespace, settings: Settings) -> int:
    """
    Take a story out of the library. It stays among the copies until you remove it there, and can
    be restored.

      srbwriter delete orchard
      srbwriter backup list
    """
    file, folder = _sound(arguments.story, "deleted")
    copy = discard(file, folder)
    print(copy)
    say(f"it was deleted; srbwriter backup restore {shlex.quote(str(copy))} brings it back")
    return Exit.OK
