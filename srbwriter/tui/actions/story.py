"""Commands on the story's text, and on whole stories: export, import, open, create, rename, copies.

Opening another story saves every word of the current one first, ends its branches, and resets the screen. The
model stays loaded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import Edit, Story, StoryError, library
from srbwriter.story.backup import Backup, backups
from srbwriter.story.backup import restore as restore_copy
from srbwriter.story.edits import apply_edits
from srbwriter.story.model import counted
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask, Confirm
from srbwriter.tui.dialogs.openings import offer_openings
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.story.find import FindBar, place_after
from srbwriter.tui.write.welcome import refuse, tell_damage

if TYPE_CHECKING:
    from srbwriter.formats.transfer import Landed
    from srbwriter.tui.write.screen import WriteScreen

STORY, STORIES = "Story", "Stories"


@command(STORY, "Undo", anywhere="ctrl+z")
def undo(screen: WriteScreen) -> None:
    """Undo the last change to the story: a pick or your own words."""
    undone = screen.session.undo()
    screen.show_story(where_changed=True)
    screen.notify(f"Undid: {undone}." if undone else "Nothing to undo.")


@command(STORY, "Redo", anywhere="ctrl+y")
def redo(screen: WriteScreen) -> None:
    """Repeat the change that was undone last."""
    redone = screen.session.redo()
    screen.show_story(where_changed=True)
    screen.notify(f"Redid: {redone}." if redone else "Nothing to redo.")


@command(STORY, "Find", "slash", anywhere="ctrl+f")
def find(screen: WriteScreen) -> None:
    """Find words in the story, from the cursor on."""
    screen.app.push_screen(FindBar(screen.editor))


def _rewrite(screen: WriteScreen, edits: Sequence[Edit]) -> None:
    """Apply the writer's ``edits``; the view stays where it is. Raises StoryError if they are not saved."""
    session, editor = screen.session, screen.editor
    start, end, top = (place_after(place, edits) for place in editor.view)
    before, by = editor.text[edits[0].start : edits[0].end], edits[0].text
    session.story.end_typing()
    editor.show(apply_edits(editor.text, edits), end)
    editor.show_view((start, end, top))
    with session.story.verb(f"replaced {len(edits)} × “{before}” by “{by}”", session.node):
        session.edit(*edits)
    session.story.end_typing()
    screen.show_story(where_changed=True)


@command(STORY, "Find and replace", writes=True)
def replace(screen: WriteScreen) -> None:
    """Replace words in the story, one place at a time or all at once; one undo reverts each step."""

    def apply(edits: Sequence[Edit]) -> bool:
        return screen.guarded(lambda: _rewrite(screen, edits))

    screen.app.push_screen(FindBar(screen.editor, apply))


@command(STORY, "Save now", anywhere="ctrl+s")
def save(screen: WriteScreen) -> None:
    """Save now and wait until the disk has everything; saving is automatic otherwise."""
    if screen.session.story.damage is not None:
        tell_damage(screen)
        return
    refuse(screen.session.story)
    screen.session.save()
    screen.notify(f"Saved in {screen.session.story.file}.")


@command(STORY, "Begin with a sample", writes=True)
def openings(screen: WriteScreen) -> None:
    """Choose an opening and have branches written at once; if the story has text, begin a new one."""
    if screen.session.text().strip():
        screen.run("new_story")
    else:
        offer_openings(screen)


@command(STORY, "Export the story")
def export(screen: WriteScreen) -> None:
    """Write the story to a file; its extension chooses the format: a book, Word, text or JSON."""
    from srbwriter import formats  # imported late: the formats would slow down the start

    labels: dict[str, str] = {}
    for form in formats.writable():
        labels.setdefault(form.extension, form.label)
    known = ", ".join(f"{extension} {label}" for extension, label in labels.items())
    question = f"Export to which file in {Path.cwd()}? The extension chooses the format: {known}"

    def take(name: str) -> bool:
        return not name.strip() or screen.guarded(lambda: _format_of(_path(name)))

    def answered(name: str) -> None:
        if name.strip():
            _export(screen, _path(name))

    name = f"{library.file_name(screen.session.story.title)}.md"
    screen.ask(Ask(question, name, take, select=True), answered)


def _format_of(target: Path) -> str:
    """Return the name of the format of a file to be written. Raises StoryError if it cannot be."""
    from srbwriter import formats

    if (form := formats.for_file(target)) is None:
        raise StoryError(formats.no_extension(target))
    return form.name


def _export(screen: WriteScreen, target: Path) -> None:
    """Begin to write a file; ask before one is replaced."""
    from srbwriter.formats import transfer

    def begin() -> None:
        screen.session.save()
        work = transfer.Export(screen.session.story.file, target, _format_of(target), force=exists)
        screen.app.transfers.begin("export", target.name, work, ended)

    def ended(landed: Landed) -> None:
        screen.notify(f"Exported to {landed.path}.")

    if exists := target.exists():
        answers = {"r": "replaces it", "escape": "keeps it"}
        screen.ask(Confirm(f"{target} exists.", answers), lambda _: begin())
    else:
        begin()


def _path(name: str) -> Path:
    """Return the absolute path of ``name``, which may start with ~ or be in quotes, as terminals paste it."""
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return (Path.cwd() / paths.expanded(name)).absolute()


@command(STORY, "Import a file")
def import_(screen: WriteScreen) -> None:
    """Create a story from a text, a folder, or another program's file, and open it."""
    from srbwriter.formats import transfer

    def answered(name: str) -> None:
        if not name.strip():
            return
        file = _path(name)

        def opened(landed: Landed) -> None:
            screen.app.open_story(landed.path, (f"Imported {file} as {landed.path}.", *landed.notices))

        work = transfer.Import(file, paths.library_dir(), as_one=file.is_dir())
        screen.app.transfers.begin("import", file.name, work, opened, leaves=True)

    question = (
        f"Import which file in {Path.cwd()}? The format is detected, and the file becomes a new story. "
        "A folder becomes one story with a chapter for each file."
    )
    screen.ask(Ask(question), answered)


@command(STORIES, "Another story", anywhere="ctrl+o")
def stories(screen: WriteScreen) -> None:
    """Open another story; every word of this one is saved."""
    here = screen.session.story.file.resolve()

    def about(story: library.StoryInfo) -> str:
        where = "this one" if story.path.resolve() == here else _moment(story.modified)
        return story.problem or f"{counted(story.words, 'word')} · {where}"

    def chosen(file: Path) -> None:
        if file.resolve() != here:
            screen.app.open_story(file)

    found = library.stories(paths.library_dir())
    choices = [Choice(story.path, story.title, about(story)) for story in found]
    screen.ask(Picker("Stories, last changed first", choices, at=screen.session.story.file), chosen)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@command(STORIES, "New story")
def new_story(screen: WriteScreen) -> None:
    """Create an empty story in the library."""

    def begin(title: str) -> None:
        title = title.strip() or "Untitled"
        file = library.free_path(paths.library_dir(), title)
        Story.create(file, title).close()
        screen.app.open_story(file)

    screen.ask(Ask("Title of the new story; it can wait"), begin)


@command(STORIES, "Rename the story", writes=True)
def rename_story(screen: WriteScreen) -> None:
    """Change the title; the file keeps its name."""

    def rename(title: str) -> None:
        session = screen.session
        if title.strip():
            session.together(lambda: session.story.set_properties(title=title))
            screen.notify(f"Renamed to {session.story.title}; the file is still {session.story.file.name}.")

    screen.ask(Ask("New title of this story", screen.session.story.title, select=True), rename)


@command(STORIES, "Snapshot")
def snapshot(screen: WriteScreen) -> None:
    """Save a named copy of the story as it is now."""

    def take(name: str) -> None:
        screen.keep_view()
        screen.session.keep()
        file = screen.session.story.snapshot(paths.backup_dir(), name)
        screen.notify(f"Saved a copy of the story: {file}.")

    screen.ask(Ask("Name for the copy of the story as it is now"), take)


@command(STORIES, "Restore a copy")
def restore(screen: WriteScreen) -> None:
    """Open a snapshot or a daily copy as a new story; this one stays as it is."""
    session = screen.session

    def bring_back(copy: Backup) -> None:
        session.keep()
        made = restore_copy(copy, session.story.file.parent)
        screen.app.open_story(made, [f"This is the copy. {session.story.title} is as you left it."])

    copies = backups(session.story.backup_folder(paths.backup_dir()))
    choices = [Choice(copy, copy.name or "daily", _moment(copy.at)) for copy in copies]
    if choices:
        title = "Copies of this story: the one you choose opens as a new story"
        screen.ask(Picker(title, choices), bring_back)
    else:
        screen.notify("There are no copies of this story yet.")
