"""Commands on chapters and scenes: begin one, list and move them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from srbwriter.story.outline import words_with_scenes
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import AskWords
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.story.outline import Chapter
    from srbwriter.tui.write.screen import WriteScreen

CHAPTERS = "Chapters"

_PREVIEW = 2_000  # characters of a chapter that the list shows
_FIRST_WORDS = 40  # characters of a scene that the list shows


@command(CHAPTERS, "Chapter or scene here", asks=True, writes=True)
def chapter(screen: WriteScreen) -> None:
    """Begin a chapter at the paragraph with the cursor; without a title, a scene."""
    story, place = screen.session.story, screen.editor.cursor
    here = next((each for each in story.outline() if each.begin <= place <= each.end), None)
    if here is None:
        _ask_title(screen, "", lambda title: story.begin_chapter(place, title))
    else:
        _ask_title(screen, here.title, lambda title: story.set_heading(here.begin, title))


@command(CHAPTERS, "Chapters")
def chapters(screen: WriteScreen) -> None:
    """List chapters and scenes with their words, and go to one."""
    found = screen.session.story.outline()
    if not found:
        screen.notify("There are no chapters yet. “Chapter or scene here” begins one at the cursor.")
        return

    def chosen(start: int) -> None:
        screen.go_to_story()
        _go(screen, start)

    before = [each.begin for each in found if each.begin <= screen.editor.cursor]
    at = before[-1] if before else None
    screen.ask(Picker("Chapters with their words", _choices(screen, found), at=at), chosen)


@command(CHAPTERS, "Move the chapter up", writes=True)
def chapter_up(screen: WriteScreen) -> None:
    """Put the chapter with the cursor before the previous one; its scenes move with it."""
    _move(screen, later=False)


@command(CHAPTERS, "Move the chapter down", writes=True)
def chapter_down(screen: WriteScreen) -> None:
    """Put the chapter with the cursor behind the next one; its scenes move with it."""
    _move(screen, later=True)


def _ask_title(screen: WriteScreen, now: str, act: Callable[[str], object]) -> None:
    def take(title: str) -> bool:
        done = screen.guarded(lambda: screen.session.together(lambda: act(title)))
        screen.show_story(where_changed=True)
        return done

    question = "Chapter title; empty for a scene break"
    screen.app.push_screen(AskWords(question, take, screen.session.draft("chapter title"), now))


def _choices(screen: WriteScreen, found: list[Chapter]) -> list[Choice]:
    """Return the list's entries; a chapter counts the words of its scenes, too."""
    text = screen.editor.text
    ends = [*(each.begin for each in found[1:]), len(text)]
    choices: list[Choice] = []
    for index, (here, end) in enumerate(zip(found, ends, strict=True)):
        words = words_with_scenes(found, index)
        preview = text[here.begin : min(end, here.begin + _PREVIEW)].strip()
        first = " ".join(text[here.end : end][:_PREVIEW].split())[:_FIRST_WORDS]
        title = here.title or f"  {here.shown}  {first}"
        choices.append(Choice(here.begin, f"{words:>6}  {title}", preview=preview or "(no words)"))
    return choices


def _move(screen: WriteScreen, *, later: bool) -> None:
    place = screen.session.move_chapter(screen.editor.cursor, later=later)
    screen.show_story()
    _go(screen, place)


def _go(screen: WriteScreen, place: int) -> None:
    """Put the cursor at the chapter that starts at ``place``, with its heading in the first row."""
    screen.editor.move_to(place)
    screen.editor.scroll_to_character(place)
