"""Commands for a long story: its summaries, its outline, names for the lorebook, and words by day."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srbwriter.session.naming import MOST_CHARACTERS
from srbwriter.session.so_far import Part, Summary
from srbwriter.story.model import Progress, counted
from srbwriter.story.outline import words_with_scenes
from srbwriter.tui import options
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.base import QUIT, Dialog
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.dialogs.sheet import Sheet
from srbwriter.tui.widgets.lines import bar

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

BOOK = "Book"

_LOOKS = 0.1  # seconds between two looks at what the model writes
_OUTLINE = (
    "A line for each chapter, “title: what happens”. The model reads the lines of the chapter that is being "
    "written and of the next one, where the author's note stands."
)


@command(BOOK, "The story so far")
def so_far(screen: WriteScreen) -> None:
    """Read and edit the summaries that the model reads of chapters that its window no longer holds."""
    found = screen.session.book.parts()
    if not found:
        screen.notify("Nothing is written yet.")
        return
    at = next((part for part, _ in reversed(found) if part.begin <= screen.editor.cursor), found[0][0])
    choices = [Choice(part, part.title, _about(summary), _preview(summary)) for part, summary in found]
    screen.ask(Picker("The story so far", choices, at=at, foot="enter edits · {keys} · type to narrow"),
               lambda part: _edit(screen, part))  # fmt: skip


def _about(summary: Summary | None) -> str:
    if summary is None:
        return "no summary"
    return "written by the model" if summary.by_model else "yours"


def _preview(summary: Summary | None) -> str:
    empty = (
        "The model writes a summary when the window no longer holds this chapter. enter writes one yourself."
    )
    return summary.text if summary is not None else empty


def _edit(screen: WriteScreen, part: Part) -> None:
    book = screen.session.book
    summary = next((one for known, one in book.parts() if known == part), None)
    words = summary.text if summary is not None else ""

    def take(text: str) -> bool:
        return screen.guarded(lambda: book.put(part, text)) if text.strip() != words else True

    draft = screen.session.draft(f"summary of {part.title}")
    about = "The model reads this in the place of the chapter. It is not a part of the story."
    screen.app.push_screen(Sheet(f"Summary: {part.title}", words, about, take, draft))


@command(BOOK, "Outline", writes=True)
def outline(screen: WriteScreen) -> None:
    """Write a line for each chapter; the model reads those of the present one and of the next."""
    _outline(screen, screen.session.book.outline)


def _outline(screen: WriteScreen, text: str) -> None:
    book = screen.session.book

    def take(words: str) -> bool:
        return screen.guarded(lambda: book.put_outline(words))

    screen.app.push_screen(Sheet("Outline", text, _OUTLINE, take, screen.session.draft("outline")))


@command(BOOK, "Propose a line for the outline", writes=True)
def propose_line(screen: WriteScreen) -> None:
    """Let the model say in one sentence what happens in the chapter with the cursor; you edit or drop it."""
    book, place = screen.session.book, screen.editor.cursor
    part = next((part for part, _ in reversed(book.parts()) if part.begin <= place), None)
    if part is None:
        screen.notify("Nothing is written yet.")
        return

    def show(line: str) -> None:
        before = book.outline
        _outline(screen, f"{before}\n{line}" if before else line)

    _when_done(screen, book.propose_line(part), show)


@command(BOOK, "Add to the lorebook", writes=True)
def add_to_lore(screen: WriteScreen) -> None:
    """Let the model write two sentences about the selected name from its passages; you edit or drop them."""
    book, name = screen.session.book, " ".join(screen.editor.selected.split())
    name = name or book.offered
    if not name or len(name) > MOST_CHARACTERS:
        screen.notify(f"Select a name of at most {MOST_CHARACTERS} characters in the story first.")
        return

    def show(text: str) -> None:
        def take(words: str) -> bool:
            return screen.guarded(lambda: book.add_entry(name, words))

        about = f"The model reads this where “{name}” occurs. Written by the model: read it over."
        draft = screen.session.draft(f"entry on {name}")
        screen.app.push_screen(Sheet(f"Lorebook: {name}", text, about, take, draft, "adds it"))

    _when_done(screen, book.propose_entry(name), show)


def _when_done(screen: WriteScreen, asked: Future[str], show: Callable[[str], None]) -> None:
    """Show what the model has written, once it is done and no other screen is above the story."""
    if not asked.done() or not screen.on_top:
        screen.editor.set_timer(_LOOKS, lambda: _when_done(screen, asked, show))
    elif (error := asked.exception()) is not None:
        screen.notify(str(error), severity="error")
    else:
        show(asked.result())


@command(BOOK, "Words by day")
def words_by_day(screen: WriteScreen) -> None:
    """Show the words of each day, and of this chapter, beside your goals."""
    preferences = screen.app.preferences
    days, goal = screen.session.story.days(), preferences[options.GOAL]
    chapter = chapter_words(screen)
    lines = [_day_line(day, progress, days, goal) for day, progress in reversed(days.items())]
    goals = [f"Goal of a day: {counted(goal, 'word')}" if goal else "No goal of a day (interface.goal)"]
    if wanted := preferences[options.CHAPTER_GOAL]:
        goals.append(f"This chapter: {chapter} of {wanted}  {bar(chapter / wanted)}")
    else:
        goals.append(f"This chapter: {counted(chapter, 'word')}; no goal (interface.chapter_goal)")
    screen.app.push_screen(Days([*goals, "", *(lines or ["Nothing is written yet."])]))


def _day_line(day: str, progress: Progress, days: dict[str, Progress], goal: int) -> str:
    most = max([goal, *(one.words for one in days.values()), 1])
    reached = " ✓" if goal and progress.words >= goal else ""
    minutes = f"{progress.seconds / 60:.0f} min"
    return f"{day}  {progress.words:>6}  {bar(progress.words / most, 24)}  {minutes:>8}{reached}"


def chapter_words(screen: WriteScreen) -> int:
    """Return the words of the chapter with the cursor."""
    story, place = screen.session.story, screen.editor.cursor
    found = story.outline()
    starts = [at for at, one in enumerate(found) if one.title and one.begin <= place]
    if not starts:
        return screen.session.words - sum(one.words for one in found)
    return words_with_scenes(found, starts[-1])


class Days(Dialog[None]):
    """Shows lines about words and days."""

    KEYS = "Words by day"
    OPENED_BY = "words_by_day"
    HEADING = "Words by day"
    FOOT = "esc goes back"
    BINDINGS = [QUIT]
    DEFAULT_CSS = "Days VerticalScroll { height: auto; max-height: 30; }"

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static("\n".join(self._lines), markup=False)
