"""Commands on the story's text: undo, find, export, import."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.story import Edit, StoryError, library
from srbwriter.story.edits import apply_edits
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask
from srbwriter.tui.dialogs.openings import offer_openings
from srbwriter.tui.story.find import FindBar, ReplaceBar
from srbwriter.tui.write.welcome import refuse, tell_damage

if TYPE_CHECKING:
    from srbwriter.formats import Format
    from srbwriter.formats.transfer import Landed
    from srbwriter.tui.write.screen import WriteScreen

STORY = "Story"


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
    _uncover(screen)
    screen.app.push_screen(FindBar(screen.editor))


def _rewrite(screen: WriteScreen, edits: Sequence[Edit]) -> None:
    """Apply the writer's ``edits``; the view stays where it is. Raises StoryError if they are not saved."""
    session, editor = screen.session, screen.editor
    view = editor.view.after(edits)
    before, by = editor.text[edits[0].start : edits[0].end], edits[0].text
    session.story.end_typing()
    editor.show(apply_edits(editor.text, edits), view.end)
    editor.show_view(view)
    with session.story.verb(f"replaced {len(edits)} × “{before}” by “{by}”", session.node):
        session.edit(*edits)
    session.story.end_typing()
    screen.show_story(where_changed=True)


def _uncover(screen: WriteScreen) -> None:
    """Show the story, even if one branch has filled the screen."""
    if screen.arrangement.large:
        screen.rearrange(large=False)


@command(STORY, "Find and replace", asks=True, writes=True)
def replace(screen: WriteScreen) -> None:
    """Replace words in the story, one place at a time or all at once; one undo reverts each step."""

    def apply(edits: Sequence[Edit]) -> bool:
        return screen.guarded(lambda: _rewrite(screen, edits))

    _uncover(screen)
    screen.app.push_screen(ReplaceBar(screen.editor, apply))


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
    """Choose an opening and have branches written at once."""
    offer_openings(screen)


@command(STORY, "Export the story", asks=True)
def export(screen: WriteScreen) -> None:
    """Write the story to a file; its extension chooses the format: a book, Word, text or JSON."""
    _ask_target(screen, f"{library.file_name(screen.session.title)}.md")


def _ask_target(screen: WriteScreen, suggested: str) -> None:
    from srbwriter import formats  # imported late: the formats would slow down the start

    labels: dict[str, str] = {}
    for form in formats.writable():
        labels.setdefault(form.extension, form.label)
    known = ", ".join(f"{extension} {label}" for extension, label in labels.items())

    def answered(name: str) -> None:
        if name.strip():
            _check(screen, name)

    question = f"Export to which file in {Path.cwd()}? The extension chooses the format: {known}"
    screen.ask(Ask(question, suggested, select=True), answered)


def _check(screen: WriteScreen, name: str) -> None:
    """Ask again for a name that cannot be used, and for permission to replace a file."""
    from srbwriter import formats
    from srbwriter.formats import transfer

    target = _path(name)
    form = formats.for_file(target)
    try:
        if form is None:
            raise StoryError(formats.no_extension(target))
        transfer.check_target(target, force=True)
    except StoryError as error:
        screen.notify(str(error), severity="error")
        _ask_target(screen, name)
        return

    def answered(word: str | None) -> None:
        if word is not None and word.strip().casefold() == "yes":
            _export(screen, target, form, force=True)
        else:
            screen.notify(f"Kept {target}.")

    if target.exists():
        question = f"{target} exists. Type yes to replace it; anything else keeps it."
        screen.app.push_screen(Ask(question), answered)
    else:
        _export(screen, target, form, force=False)


def _path(name: str) -> Path:
    """Return the absolute path of ``name``, which may start with ~ or be in quotes, as terminals paste it."""
    name = name.strip()
    if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'":
        name = name[1:-1]
    return (Path.cwd() / paths.expanded(name)).absolute()


def _export(screen: WriteScreen, target: Path, form: Format, *, force: bool) -> None:
    from srbwriter.formats import transfer

    screen.session.save()
    story = screen.session.story
    work = transfer.Export(story.file, target, form.name, force)

    def ended(landed: Landed) -> None:
        screen.notify(f"Exported to {landed.path}.")

    screen.app.transfers.begin("export", target.name, work, ended)


@command(STORY, "Import a file", asks=True)
def import_(screen: WriteScreen) -> None:
    """Create a story from a text, a folder, or another program's file, and open it."""

    def answered(name: str) -> None:
        if name.strip():
            _import(screen, _path(name))

    question = (
        f"Import which file in {Path.cwd()}? The format is detected, and the file becomes a new story. "
        "A folder becomes one story with a chapter for each file."
    )
    screen.ask(Ask(question), answered)


def _import(screen: WriteScreen, file: Path) -> None:
    from srbwriter.formats import transfer

    def opened(landed: Landed) -> None:
        screen.app.open_story(landed.path, (f"Imported {file} as {landed.path}.", *landed.notices))

    work = transfer.Import(file, paths.library_dir(), as_one=file.is_dir())
    screen.app.transfers.begin("import", file.name, work, opened, leaves=True)
