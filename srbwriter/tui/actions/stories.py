"""Commands on whole stories: open another, create, rename, copy, and restore a copy.

Opening another story saves every word of the current one first, ends its branches, and resets the screen. The
model stays loaded.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import files, library
from srbwriter.story.backup import Backup, backups
from srbwriter.story.model import counted
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen


STORIES = "Stories"


@command(STORIES, "Another story", anywhere="ctrl+o")
def stories(screen: WriteScreen) -> None:
    """Open another story; every word of this one is saved."""
    here = screen.session.story.file
    found = files.known(paths.library_dir(), library.RecentStories(paths.recent_file()))
    choices = [Choice(story.path, story.title, _about(story, here)) for story in found]

    def chosen(file: Path) -> None:
        if file.resolve() != here.resolve():
            screen.app.open_story(file)

    screen.ask(Picker("Stories, last changed first", choices, at=here), chosen)


def _about(story: library.StoryInfo, here: Path) -> str:
    if story.problem:
        return story.problem
    where = "this one" if story.path.resolve() == here.resolve() else _moment(story.modified)
    return f"{counted(story.words, 'word')} · {where}"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@command(STORIES, "New story", asks=True)
def new_story(screen: WriteScreen) -> None:
    """Create an empty story in the library."""

    def begin(title: str) -> None:
        screen.app.open_story(files.begin(title.strip() or "Untitled", paths.library_dir()))

    screen.ask(Ask("Title of the new story; it can wait"), begin)


@command(STORIES, "Rename the story", asks=True, writes=True)
def rename_story(screen: WriteScreen) -> None:
    """Change the title; the file keeps its name."""

    def rename(title: str) -> None:
        session = screen.session
        if title.strip():
            session.together(lambda: session.story.rename(title.strip()))
            screen.notify(f"Renamed to {session.title}; the file is still {session.story.file.name}.")

    screen.ask(Ask("New title of this story", screen.session.title, select=True), rename)


@command(STORIES, "Snapshot", asks=True)
def snapshot(screen: WriteScreen) -> None:
    """Save a named copy of the story as it is now."""

    def take(name: str) -> None:
        screen.keep_view()
        screen.session.keep()
        story = screen.session.story
        file = story.snapshot(paths.backup_dir(), name)
        screen.notify(f"Saved a copy of the story: {file}.")

    screen.ask(Ask("Name for the copy of the story as it is now"), take)


@command(STORIES, "Restore a copy")
def restore(screen: WriteScreen) -> None:
    """Open a snapshot or a daily copy as a new story; this one stays as it is."""
    story = screen.session.story
    copies = backups(story.backup_folder(paths.backup_dir()))
    if not copies:
        screen.notify("There are no copies of this story yet.")
        return
    choices = [Choice(copy, copy.name or "daily", _copy_about(copy)) for copy in copies]

    title = "Copies of this story: the one you choose opens as a new story"
    screen.ask(Picker(title, choices), lambda copy: _bring_back(screen, copy))


def _copy_about(copy: Backup) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(copy.at)) if not copy.name else _moment(copy.at)


def _bring_back(screen: WriteScreen, copy: Backup) -> None:
    screen.session.keep()
    title = files.moment_title(copy)
    made = files.copy_as(copy.path, library.free_path(screen.session.story.file.parent, title), title)
    screen.app.open_story(made, [f"This is the copy. {screen.session.title} is as you left it."])
