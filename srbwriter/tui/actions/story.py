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
from srbwriter.story.library import Backup, backups
from srbwriter.story.library import restore as restore_copy
from srbwriter.story.model import counted
from srbwriter.story.spans import apply_edits
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask, Confirm
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.story.find import FindBar, place_after
from srbwriter.tui.write.welcome import refuse, tell_damage

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

STORY, STORIES = "Story", "Stories"


@command(STORY, "Undo", anywhere="ctrl+z", foot="undo")
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
async def save(screen: WriteScreen) -> None:
    """Save now and wait until the disk has everything; saving is automatic otherwise."""
    if screen.session.story.damage:
        await tell_damage(screen)
        return
    refuse(screen.session.story)
    screen.session.save()
    screen.notify(f"Saved in {screen.session.story.file}.")


@command(STORY, "Begin with a sample", writes=True)
async def openings(screen: WriteScreen) -> None:
    """Choose an opening and have branches written at once; if the story has text, begin a new one."""
    from srbwriter.tui.dialogs.openings import offer_openings

    if screen.session.text().strip():
        screen.run("new_story")
    else:
        await offer_openings(screen)


@command(STORY, "Export the story")
async def export(screen: WriteScreen) -> None:
    """Write the story to a file; its extension chooses the format: a book, Word, text or JSON."""
    from srbwriter import formats  # imported late: the formats would slow down the start
    from srbwriter.formats import transfer

    labels: dict[str, str] = {}
    for form in formats.writable():
        labels.setdefault(form.extension, form.label)
    known = ", ".join(f"{extension} {label}" for extension, label in labels.items())
    question = f"Export to which file in {Path.cwd()}? The extension chooses the format: {known}"

    def take(name: str) -> bool:
        return not name.strip() or screen.guarded(lambda: _format_of(_path(name)))

    app, story = screen.app, screen.session.story
    name = await app.ask(Ask(question, f"{library.file_name(story.title)}.md", take, select=True))
    if not name or not name.strip():
        return
    target = _path(name)
    answers = {"r": "replaces it", "escape": "keeps it"}
    exists = target.exists()
    if exists and await app.ask(Confirm(f"{target} exists.", answers)) is None:
        return
    screen.session.save()
    work = transfer.Export(story.file, target, _format_of(target), force=exists)
    if landed := await app.transfers.run("export", target.name, work):
        screen.notify(f"Exported to {landed.path}.")


def _format_of(target: Path) -> str:
    """Return the name of the format of a file to be written. Raises StoryError if it cannot be."""
    from srbwriter import formats

    if (form := formats.for_file(target)) is None:
        raise StoryError(formats.no_extension(target))
    return form.name


def _path(name: str) -> Path:
    """Return the absolute path of ``name``, which may start with ~ or be in quotes, as terminals paste it."""
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return (Path.cwd() / paths.expanded(name)).absolute()


@command(STORY, "Import a file")
async def import_(screen: WriteScreen) -> None:
    """Create a story from a text, a folder, or another program's file, and open it."""
    from srbwriter.formats import transfer

    question = (
        f"Import which file in {Path.cwd()}? The format is detected, and the file becomes a new story. "
        "A folder becomes one story with a chapter for each file."
    )
    name = await screen.app.ask(Ask(question))
    if not name or not name.strip():
        return
    file = _path(name)
    work = transfer.Import(file, paths.library_dir(), as_one=file.is_dir())
    if landed := await screen.app.transfers.run("import", file.name, work, leaves=True):
        screen.app.open_story(landed.path, (f"Imported {file} as {landed.path}.", *landed.notices))


@command(STORIES, "Another story", anywhere="ctrl+o")
async def stories(screen: WriteScreen) -> None:
    """Open another story; every word of this one is saved."""
    here = screen.session.story.file.resolve()

    def about(story: library.StoryInfo) -> str:
        where = "this one" if story.path.resolve() == here else _moment(story.modified)
        return story.problem or f"{counted(story.words, 'word')} · {where}"

    found = library.stories(paths.library_dir())
    choices = [Choice(story.path, story.title, about(story)) for story in found]
    picker = Picker("Stories, last changed first", choices, at=screen.session.story.file)
    file = await screen.app.ask(picker)
    if file is not None and file.resolve() != here:
        screen.app.open_story(file)


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


@command(STORIES, "New story")
async def new_story(screen: WriteScreen) -> None:
    """Create an empty story in the library."""
    title = await screen.app.ask(Ask("Title of the new story; it can wait"))
    if title is not None:
        title = title.strip() or "Untitled"
        file = library.free_path(paths.library_dir(), title)
        Story.create(file, title).close()
        screen.app.open_story(file)


@command(STORIES, "Rename the story", writes=True)
async def rename_story(screen: WriteScreen) -> None:
    """Change the title; the file keeps its name."""
    session, story = screen.session, screen.session.story
    title = await screen.app.ask(Ask("New title of this story", story.title, select=True))
    if title and title.strip():
        session.together(lambda: story.set_properties(title=title))
        screen.notify(f"Renamed to {story.title}; the file is still {story.file.name}.")


@command(STORIES, "Snapshot")
async def snapshot(screen: WriteScreen) -> None:
    """Save a named copy of the story as it is now."""
    name = await screen.app.ask(Ask("Name for the copy of the story as it is now"))
    if name is not None:
        screen.keep_view()
        screen.session.save()
        story = screen.session.story
        file = library.snapshot(story.file, story.backup_folder(paths.backup_dir()), name)
        screen.notify(f"Saved a copy of the story: {file}.")


@command(STORIES, "Restore a copy")
async def restore(screen: WriteScreen) -> None:
    """Open a snapshot or a daily copy as a new story; this one stays as it is."""
    session, story = screen.session, screen.session.story
    copies = backups(story.backup_folder(paths.backup_dir()))
    choices = [Choice(copy, copy.name or "daily", _moment(copy.at)) for copy in copies]
    if not choices:
        screen.notify("There are no copies of this story yet.")
        return
    title = "Copies of this story: the one you choose opens as a new story"
    copy: Backup | None = await screen.app.ask(Picker(title, choices))
    if copy is not None:
        session.keep()
        made = restore_copy(copy, story.file.parent)
        screen.app.open_story(made, [f"This is the copy. {story.title} is as you left it."])
