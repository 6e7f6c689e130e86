"""Chapters and scenes in the real program: begun, seen, listed, moved, undone, and kept through a kill."""

from __future__ import annotations

from pathlib import Path

from srbwriter.story import Story
from tests.terminal.support import make_story, says_saved, text_of
from tests.terminal.terminal import CTRL_P, CTRL_Q, CTRL_Z, ENTER, Terminal

BOOK = "It rained all day.\n\nShe left early.\n\nHe stayed behind."
UP = b"\x1b[A"


def run(terminal: Terminal, title: str) -> None:
    """Run a command by its title."""
    terminal.press(CTRL_P)
    terminal.wait_for("🔎")
    terminal.press(title.encode())
    terminal.wait_for(title)
    terminal.press(ENTER)


def outline(file: Path) -> list[str]:
    """The titles of the chapters, as the file has them."""
    with Story.open(file, readonly=True) as story:
        return [chapter.title for chapter in story.outline()]


def rows(screen: str, *words: str) -> list[int]:
    """The row of each of ``words``; -1 where they are not on the screen."""
    lines = screen.splitlines()
    return [next((row for row, line in enumerate(lines) if each in line), -1) for each in words]


def in_order(screen: str, *words: str) -> bool:
    """Whether all the words are on the screen, one below the other."""
    found = rows(screen, *words)
    return -1 not in found and found == sorted(found) and len(set(found)) == len(found)


def test_a_chapter_and_a_scene_are_seen_and_outlive_a_kill(terminal: Terminal) -> None:
    file = make_story(terminal.folder, BOOK)
    terminal.start(file)
    terminal.wait_for("He stayed behind.")
    run(terminal, "Chapter or scene here")
    terminal.wait_for("Chapter title")
    terminal.press(b"The Third")
    terminal.press(ENTER)
    terminal.wait(lambda s: in_order(s, "She left", "He stayed", "The Third"), "a chapter at the end")
    terminal.type("Alone.")
    terminal.press(UP, UP, UP, UP, UP)
    run(terminal, "Chapter or scene here")
    terminal.wait_for("Chapter title")
    terminal.press(ENTER)
    terminal.wait(lambda s: says_saved(s) and in_order(s, "* * *", "The Third", "Alone."), "a scene break")
    terminal.kill()
    assert outline(file) == ["", "The Third"] and text_of(file).endswith("# The Third\n\nAlone.")


def test_the_list_leads_to_a_chapter_which_moves_and_comes_back(terminal: Terminal) -> None:
    book = "It rained all day.\n\n# Departure\n\nShe left early.\n\n# Home\n\nHe stayed behind."
    file = make_story(terminal.folder, book)
    terminal.start(file)
    terminal.wait(lambda s: in_order(s, "Departure", "She left", "Home", "He stayed"), "the headings")
    run(terminal, "Chapters")
    terminal.wait(lambda s: "3  Home" in s and "3  Departure" in s, "the list with words")
    terminal.press(b"dep")
    terminal.wait_without("3  Home")
    terminal.press(ENTER)
    terminal.wait_without("3  Departure")
    run(terminal, "Move the chapter down")
    terminal.wait(lambda s: in_order(s, "Home", "He stayed", "Departure", "She left"), "the moved chapter")
    terminal.wait(says_saved, "saved")
    assert outline(file) == ["Home", "Departure"]
    terminal.press(CTRL_Z)
    terminal.wait(lambda s: in_order(s, "Departure", "She left", "Home", "He stayed"), "the old order")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0 and text_of(file) == book
