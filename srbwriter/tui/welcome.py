"""What a writer is met with: openings for an empty story, and plain words about one that cannot be written.

Nothing that is typed may be lost without a word, so a story for reading only takes no typing at all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from srbwriter import paths
from srbwriter.session.typing import Rescued, sheets_left
from srbwriter.story import Blocked, ReadOnly, ReadOnlyStory, Story, StoryError, library
from srbwriter.story.backup import backups
from srbwriter.story.model import counted
from srbwriter.tui.screens.ask import Confirm
from srbwriter.tui.screens.trouble import RECOVER, DamagedNote

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen


def receive(screen: WriteScreen) -> None:
    """Show what the writer has to know or to choose before he begins."""
    why = screen.session.story.read_only
    if why is None:
        _tell_of_drafts(screen)
        if (rescued := screen.session.rescued) is not None:
            _offer_rescued(screen, rescued)
        elif not _begun(screen.session.story):
            screen.run("openings")
        return
    screen.editor.shut(short(why, screen.session.story.file))
    if why.reason is Blocked.DAMAGED:
        tell_damage(screen)
    else:
        screen.notify(short(why, screen.session.story.file), severity="error")


def _begun(story: Story) -> bool:
    """Whether a story has words, or a request that its first words are to follow."""
    here = story.current
    return bool(story.text(here).strip()) or story.settings(here).request is not None


def _tell_of_drafts(screen: WriteScreen) -> None:
    """Say where words are that were being typed when the program died: on their sheets, or in the tree."""
    if screen.session.taken_up:
        screen.notify("Words you were typing for a branch when the program ended are in the tree now.")
    sheets = (sheet.partition(":")[0].replace("_", " ") for sheet in sheets_left(screen.session.story))
    if kinds := ", ".join(dict.fromkeys(sheets)):
        screen.notify(f"Words that were not kept yet are still there: {kinds}. Open that to go on.")


def _offer_rescued(screen: WriteScreen, rescued: Rescued) -> None:
    """Ask about words that the disk did not take when the program last ran."""
    session = screen.session

    def take() -> None:
        session.take_rescued()
        screen.show_story()

    def answered(key: str | None) -> None:
        if key == "t":
            screen.guarded(take)

    words = counted(sum(len(text.split()) for text in rescued.words.values()), "word")
    question = f"The disk did not take your last words. They are in {rescued.folder} ({words})."
    answers = {"t": "takes them into the story; undo takes that back", "escape": "leaves them there"}
    screen.app.push_screen(Confirm(question, answers), answered)


def short(why: ReadOnly, file: Path) -> str:
    """Why nothing can be written, in a line that is said whenever the writer tries to."""
    if why.reason is Blocked.DAMAGED:
        return f"{file.name} is damaged and is open for reading only. ctrl+s says what can be done."
    return f"{why.message}. Nothing can be written here."


def writes(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that asks for words: refused at once where a story could not keep them."""

    @wraps(handler)
    def checked(screen: WriteScreen, *given: Any) -> Any:
        refuse(screen.session.story)
        return handler(screen, *given)

    return checked


def refuse(story: Story) -> None:
    """Raise ReadOnlyStory, in a line, if ``story`` is for reading only."""
    why = story.read_only
    if why is not None:
        raise ReadOnlyStory(ReadOnly(why.reason, short(why, story.file)))


def tell_damage(screen: WriteScreen) -> None:
    """Say that the file is damaged, what is left of it, and what can be done."""
    story = screen.session.story
    if story.damage is None:
        return
    left = sum(story.words_by_author().values())
    copies = len(backups(story.backup_folder(paths.backup_dir())))
    doubtful = [story.node(node).text for node in story.damage.doubtful[:5]]

    def chosen(what: str | None) -> None:
        if what == RECOVER:
            screen.guarded(lambda: _recover(screen))

    screen.app.push_screen(DamagedNote(story.file, story.damage, left, copies, doubtful), chosen)


def _recover(screen: WriteScreen) -> None:
    """Go on in a story of its own that holds what could be read; the damaged file stays as it is."""
    story = screen.session.story
    title = f"{story.title or story.file.stem} (recovered)"
    try:
        made = story.recover(library.free_path(story.file.parent, title), title)
    except StoryError:  # the folder takes no file, perhaps because its disk is failing
        paths.make_folder(paths.library_dir())
        made = story.recover(library.free_path(paths.library_dir(), title), title)
    screen.app.open_story(made, [f"This is {made}, made of what was left of {story.file.name}."])
