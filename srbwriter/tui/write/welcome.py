"""What a writer sees first: openings for an empty story, messages about recovered text or a read-only story.

A read-only story accepts no typing at all, so that no typed text is lost.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from srbwriter import paths
from srbwriter.session.drafts import sheets_left
from srbwriter.story import Story, StoryError, library
from srbwriter.story.model import ReadOnly
from srbwriter.tui.dialogs.ask import Confirm
from srbwriter.tui.dialogs.trouble import damage_question

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_FOLLOW_SECONDS = 1.0


def receive(screen: WriteScreen) -> None:
    """Show what the writer has to know or to choose before writing."""
    why = screen.session.story.read_only
    if why is None:
        _tell_of_drafts(screen)
        if not _begun(screen.session.story):
            screen.run("openings")
        return
    screen.editor.shut(short(why, screen.session.story.file))
    if why.reason == "damaged":
        screen.attend(tell_damage(screen))
        return
    screen.notify(short(why, screen.session.story.file), severity="error")
    if why.reason == "in use":
        screen.set_interval(_FOLLOW_SECONDS, lambda: _follow(screen))


def _follow(screen: WriteScreen) -> None:
    """Show what the other window has written; when that has ended, open the story here for writing."""
    story = screen.session.story
    with contextlib.suppress(StoryError):  # it is moved or written anew just now
        if story.follow() and screen.app.next_story is None:
            if story.read_only is None:
                screen.app.open_story(
                    story.file, ["The other window has closed this story. You can write here now."]
                )
            else:
                screen.show_story(where_changed=True)


def _begun(story: Story) -> bool:
    """Return whether a story has text, or a request for its first text."""
    here = story.current
    return bool(story.text(here).strip()) or story.settings(here).request is not None


def _tell_of_drafts(screen: WriteScreen) -> None:
    """Say in which dialogs text was being typed when the program died."""
    sheets = (sheet.partition(":")[0].replace("_", " ") for sheet in sheets_left(screen.session.story))
    if kinds := ", ".join(dict.fromkeys(sheets)):
        screen.notify(f"Recovered: unsaved words for {kinds}. Open that to continue.")


def short(why: ReadOnly, file: Path) -> str:
    """Return in one line why the story is read-only; shown whenever the writer tries to type."""
    if why.reason == "damaged":
        return f"{file.name} is damaged and is open for reading only. ctrl+s says what can be done."
    return f"{why.message}. Nothing can be written here."


def refuse(story: Story) -> None:
    """Raise StoryError with a one-line message if ``story`` is read-only."""
    why = story.read_only
    if why is not None:
        raise StoryError(short(why, story.file))


async def tell_damage(screen: WriteScreen) -> None:
    """Show that the file is damaged, its readable part, and what to do."""
    story = screen.session.story
    if not story.damage:
        return
    question, answers, good = damage_question(story)

    key = await screen.app.ask(Confirm(question, answers))
    if key == "c" and good is not None:
        made = library.restore(good, story.file.parent)
        screen.app.open_story(made, ["This is the copy. The damaged file is as it was."])
    elif key == "r":
        _recover(screen)


def _recover(screen: WriteScreen) -> None:
    """Continue in a new story with the readable parts; the damaged file stays as it is."""
    story = screen.session.story
    draft = replace(story.draft(), title=f"{story.title or story.file.stem} (recovered)")
    try:
        made = Story.from_draft(library.free_path(story.file.parent, draft.title), draft)
    except StoryError:  # the folder cannot be written, perhaps because its disk is failing
        made = Story.from_draft(library.free_path(paths.library_dir(), draft.title), draft)
    made.close()
    words = f"This is {made.file}, made from the readable parts of {story.file.name}."
    screen.app.open_story(made.file, [words])
