"""Keys are what was meant: a held key is a command, prose is prose, a digit is for a text that was seen."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import OPENING, READ, ended, foot, text_of, with_branches
from tests.terminal.terminal import CTRL_Q, ESC, Terminal

F1 = b"\x1bOP"
TYPED = "She seemed less sure, and we were afraid."
STEADY = 1 / 15  # seconds between two keys


def test_a_held_key_marks_words_escape_chooses_nothing_and_prose_is_prose(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.press(b"wwww")
    terminal.wait(lambda _: len(terminal.underlined()) >= 4, "four words that are marked")
    assert text_of(file) == OPENING and "BRANCH 1" in foot(terminal.screen)
    terminal.press(ESC + F1)
    terminal.wait_for("Move between the")
    terminal.press(ESC)
    terminal.wait_without("Move between the")
    for letter in "dew":  # commands, each of them
        terminal.press(letter.encode())
        terminal.rest(STEADY)
    terminal.wait(lambda _: text_of(file) == f"{OPENING}dew", "the letters in the story")
    assert "your words went into the story" in terminal.screen
    before = text_of(file)
    terminal.press(b"\x0e")
    terminal.wait(lambda shown: "1–9" in foot(shown) and ended(shown), "two new branches")
    terminal.rest(READ)
    terminal.press(b"1")
    terminal.wait(lambda _: text_of(file) != before, "a pick")
    terminal.press(ESC, ESC)
    for letter in TYPED:
        terminal.press(letter.encode())
        terminal.rest(STEADY)
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file).endswith(TYPED)


def test_one_digit_twice_picks_one_branch(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.rest(READ)
    terminal.press(b"1")
    terminal.rest(0.12)
    terminal.press(b"1")
    terminal.wait(lambda _: text_of(file) != OPENING, "a pick")
    terminal.wait(lambda shown: "1–9" in foot(shown) and ended(shown), "the branches that follow")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(file, readonly=True) as story:
        picked = [node for node in story.nodes(story.path(story.current)) if node.author == "model"]
    assert len(picked) == 1
