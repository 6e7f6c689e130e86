"""Commands on chapters and scenes: begin one, list them, rename, remove and move them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from srbwriter.story import Refused
from srbwriter.story.chapters import chapter_headings
from srbwriter.story.headings import Heading, paragraph_at
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import AskWords
from srbwriter.tui.dialogs.picker import Choice, Picker

if TYPE_CHECKING:
    from srbwriter.story.chapters import Chapter
    from srbwriter.tui.program import Writer

CHAPTERS = "Chapters"

_PREVIEW = 2_000  # characters of a chapter that the list shows
_FIRST_WORDS = 40  # characters of a scene that the list shows
_IN_TEXT = "This heading is a line of the text: change it there."


@command(CHAPTERS, "Chapter or scene here", asks=True, writes=True)
def chapter(screen: Writer) -> None:
    """Begin a chapter at the paragraph with the cursor; without a title, a scene."""
    place = paragraph_at(screen.editor.whole, screen.editor.place)
    for found, heading in _headings(screen):
        if heading.start == place:
            _rename(screen, found, heading)
            return

    def begin(title: str) -> None:
        screen.session.together(lambda: screen.session.story.begin_chapter(place, title))

    _ask_title(screen, "", begin)


@command(CHAPTERS, "Rename the chapter", asks=True, writes=True)
def rename_chapter(screen: Writer) -> None:
    """Change the title of the chapter with the cursor."""
    _rename(screen, *_here(screen))


@command(CHAPTERS, "Remove the heading", writes=True)
def remove_heading(screen: Writer) -> None:
    """Remove the last heading before the cursor; the text stays."""
    found, heading = _here(screen)
    session = screen.session
    session.together(lambda: session.story.set_heading(found.node, None))
    screen.show_story(where_changed=True)
    stays = " The line in the text stays." if heading.in_text else ""
    screen.notify(f"Removed the heading {heading.words}.{stays}")


@command(CHAPTERS, "Chapters")
def chapters(screen: Writer) -> None:
    """List chapters and scenes with their words, and go to one."""
    found = _headings(screen)
    if not found:
        screen.notify("There are no chapters yet. “Chapter or scene here” begins one at the cursor.")
        return

    def chosen(start: int) -> None:
        screen.go_to_story()
        screen.editor.go_to_heading(start)

    before = [heading.start for _, heading in found if heading.start <= screen.editor.place]
    at = before[-1] if before else None
    screen.ask(Picker("Chapters with their words", _choices(screen, found), at=at), chosen)


@command(CHAPTERS, "Move the chapter up", writes=True)
def chapter_up(screen: Writer) -> None:
    """Put the chapter with the cursor before the previous one; its scenes move with it."""
    _move(screen, later=False)


@command(CHAPTERS, "Move the chapter down", writes=True)
def chapter_down(screen: Writer) -> None:
    """Put the chapter with the cursor behind the next one; its scenes move with it."""
    _move(screen, later=True)


def _headings(screen: Writer) -> list[tuple[Chapter, Heading]]:
    """Return the chapters of the text with their headings; everything typed is saved first."""
    screen.session.keep()
    return chapter_headings(screen.session.story.outline(), screen.editor.whole)


def _here(screen: Writer) -> tuple[Chapter, Heading]:
    """Return the last chapter or scene before the cursor. Raises Refused if there is none."""
    found = [each for each in _headings(screen) if each[1].start <= screen.editor.place]
    if not found:
        raise Refused("no chapter starts before the cursor; put the cursor into a chapter")
    return found[-1]


def _rename(screen: Writer, found: Chapter, heading: Heading) -> None:
    if heading.in_text:
        screen.notify(_IN_TEXT)
        return

    def rename(title: str) -> None:
        screen.session.together(lambda: screen.session.story.set_heading(found.node, title))

    _ask_title(screen, heading.title, rename)


def _ask_title(screen: Writer, now: str, act: Callable[[str], None]) -> None:
    def take(title: str) -> bool:
        done = screen.guarded(lambda: act(title))
        screen.show_story(where_changed=True)
        screen.editor.call_after_refresh(screen.editor.scroll_cursor_visible)  # below its new row
        return done

    question = "Chapter title; empty for a scene break"
    screen.app.push_screen(AskWords(question, take, screen.session.draft("chapter title"), now))


def _choices(screen: Writer, found: list[tuple[Chapter, Heading]]) -> list[Choice]:
    """Return the list's entries; a chapter counts the words of its scenes, too."""
    text = screen.editor.whole
    ends = [*(heading.start for _, heading in found[1:]), len(text)]
    choices: list[Choice] = []
    for index, ((chapter, heading), end) in enumerate(zip(found, ends, strict=True)):
        words = chapter.words
        for scene, below in found[index + 1 :] if heading.title else ():
            if below.title:
                break
            words += scene.words
        preview = text[heading.start : min(end, heading.start + _PREVIEW)].strip()
        title = heading.title or f"  {heading.words}  {' '.join(preview.split())[:_FIRST_WORDS]}"
        choices.append(Choice(heading.start, f"{words:>6}  {title}", preview=preview or "(no words)"))
    return choices


def _move(screen: Writer, *, later: bool) -> None:
    place = screen.session.move_chapter(screen.editor.place, later=later)
    screen.show_story()
    screen.editor.go_to_heading(place)
