"""Commands for a long story: chapters, summaries, the outline, names for the lorebook, and words by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srbwriter.session.naming import MOST_CHARACTERS
from srbwriter.session.so_far import Part, Summary
from srbwriter.story.model import counted
from srbwriter.story.outline import SCENE_BREAK
from srbwriter.story.words import words_of
from srbwriter.tui import options
from srbwriter.tui.actions.instruments import answer_of
from srbwriter.tui.commands import command
from srbwriter.tui.dialogs.ask import Ask, Confirm, Sheet
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.write.status import bar

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

CHAPTERS, BOOK = "Chapters", "Book"

_PREVIEW = 2_000  # characters of a chapter that the list shows
_FIRST_WORDS = 40  # characters of a scene that the list shows


@command(CHAPTERS, "Chapter or scene here", writes=True)
def chapter(screen: WriteScreen) -> None:
    """Begin a chapter at the paragraph with the cursor; without a title, a scene."""
    session, place = screen.session, screen.editor.cursor
    story = session.story
    here = next((each for each in story.outline() if each.begin <= place <= each.end), None)

    def take(title: str) -> bool:
        done = screen.guarded(lambda: session.together(lambda: story.put_heading(place, title)))
        screen.show_story(where_changed=True)
        return done

    now, draft = here.title if here is not None else "", session.draft("chapter title")
    screen.app.push_screen(Ask("Chapter title; empty for a scene break", now, take, draft))


@command(CHAPTERS, "Chapters")
async def chapters(screen: WriteScreen) -> None:
    """List chapters and scenes with their words, and go to one."""
    text, found = screen.editor.text, screen.session.story.outline()
    if not found:
        screen.notify("There are no chapters yet. “Chapter or scene here” begins one at the cursor.")
        return
    choices: list[Choice] = []
    ends = [*(each.begin for each in found[1:]), len(text)]
    for here, end in zip(found, ends, strict=True):
        preview = text[here.begin : min(end, here.begin + _PREVIEW)].strip()
        first = " ".join(text[here.end : end][:_PREVIEW].split())[:_FIRST_WORDS]
        title = f"{here.words:>6}  {here.title or f'  {SCENE_BREAK}  {first}'}"
        choices.append(Choice(here.begin, title, preview=preview or "(no words)"))

    at = max((each.begin for each in found if each.begin <= screen.editor.cursor), default=None)
    start = await screen.app.ask(Picker("Chapters with their words", choices, at=at))
    if start is not None:
        screen.go_to_story()
        _go(screen, start)


@command(CHAPTERS, "Move the chapter up", writes=True)
def chapter_up(screen: WriteScreen) -> None:
    """Put the chapter with the cursor before the previous one; its scenes move with it."""
    _move(screen, later=False)


@command(CHAPTERS, "Move the chapter down", writes=True)
def chapter_down(screen: WriteScreen) -> None:
    """Put the chapter with the cursor behind the next one; its scenes move with it."""
    _move(screen, later=True)


def _move(screen: WriteScreen, *, later: bool) -> None:
    place = screen.session.move_chapter(screen.editor.cursor, later=later)
    screen.show_story()
    _go(screen, place)


def _go(screen: WriteScreen, place: int) -> None:
    """Put the cursor at the chapter that starts at ``place``, with its heading in the first row."""
    screen.editor.move_to(place)
    screen.editor.scroll_to_character(place)


_NO_SUMMARY = (
    "The model writes a summary when the window no longer holds this chapter. enter writes one yourself."
)


def _part_here(screen: WriteScreen) -> Part | None:
    """Return the part of the book with the cursor, or the first one; if there is none, notify the writer."""
    parts = [part for part, _ in screen.session.book.parts()]
    if not parts:
        screen.notify("Nothing is written yet.")
        return None
    return max(parts, key=lambda part: (part.begin <= screen.editor.cursor, part.begin))


@command(BOOK, "The story so far")
async def so_far(screen: WriteScreen) -> None:
    """Read and edit the summaries that the model reads of chapters that its window no longer holds."""
    if (here := _part_here(screen)) is None:
        return

    def about(summary: Summary | None) -> str:
        return "no summary" if summary is None else "written by the model" if summary.by_model else "yours"

    choices = [
        Choice(part, part.title, about(summary), summary.text if summary is not None else _NO_SUMMARY)
        for part, summary in screen.session.book.parts()
    ]
    part = await screen.app.ask(Picker("The story so far", choices, at=here))
    if part is not None:
        _edit_summary(screen, part)


def _edit_summary(screen: WriteScreen, part: Part) -> None:
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

    about = (
        "A line for each chapter, “title: what happens”. The model reads the lines of the chapter that is "
        "being written and of the next one, where the author's note stands."
    )
    screen.app.push_screen(Sheet("Outline", text, about, take, screen.session.draft("outline")))


@command(BOOK, "Propose a line for the outline", writes=True)
async def propose_line(screen: WriteScreen) -> None:
    """Let the model say in one sentence what happens in the chapter with the cursor; you edit or drop it."""
    book = screen.session.book
    if (part := _part_here(screen)) is not None:
        line = await answer_of(screen, book.propose_line(part))
        _outline(screen, f"{book.outline}\n{line}".lstrip("\n"))


@command(BOOK, "Add to the lorebook", writes=True)
async def add_to_lore(screen: WriteScreen) -> None:
    """Let the model write two sentences about the selected name from its passages; you edit or drop them."""
    session, book = screen.session, screen.session.book
    name = " ".join(screen.editor.selected.split()) or book.offered
    if not name or len(name) > MOST_CHARACTERS:
        screen.notify(f"Select a name of at most {MOST_CHARACTERS} characters in the story first.")
        return

    def take(words: str) -> bool:
        return screen.guarded(lambda: book.add_entry(name, words))

    entry = await answer_of(screen, book.propose_entry(name))
    about = f"The model reads this where “{name}” occurs. Written by the model: read it over."
    draft = session.draft(f"entry on {name}")
    screen.app.push_screen(Sheet(f"Lorebook: {name}", entry, about, take, draft, "adds it"))


@command(BOOK, "Words by day")
def words_by_day(screen: WriteScreen) -> None:
    """Show the words of each day, and of this chapter, beside your goals."""
    goal, days = screen.app.preferences[options.GOAL], screen.session.story.days()
    wanted, found = screen.app.preferences[options.CHAPTER_GOAL], screen.session.story.outline()
    here = [one.words for one in found if one.title and one.begin <= screen.editor.cursor]
    written = here[-1] if here else words_of(screen.editor.text[: found[0].begin if found else None])
    lines = ["Words by day", f"Goal of a day: {counted(goal, 'word') if goal else 'none (interface.goal)'}"]
    of = f" of {wanted}  {bar(written / wanted)}" if wanted else "; no goal (interface.chapter_goal)"
    lines.append(f"This chapter: {counted(written, 'word')}{of}")
    lines.append("" if days else "Nothing is written yet.")
    most = max([goal, 1, *(day.words for day in days.values())])
    for day, progress in reversed(days.items()):
        reached = " ✓" if goal and progress.words >= goal else ""
        minutes = f"{progress.seconds / 60:.0f} min"
        lines.append(f"{day}  {progress.words:>6}  {bar(progress.words / most, 24)}  {minutes:>8}{reached}")
    screen.app.push_screen(Confirm("\n".join(lines), {"escape": "goes back"}))
