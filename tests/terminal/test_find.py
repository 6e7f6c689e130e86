"""Find and replace, and notes in the tree, as keys in a terminal."""

from __future__ import annotations

from srbwriter.story import Story
from tests.terminal.support import READ, choose, make_story, text_of, with_branches
from tests.terminal.terminal import CTRL_F, CTRL_Q, CTRL_Z, ENTER, ESC, F3, TAB, Terminal

TEXT = "The lantern went out. She lit the lantern. No Lantern burned."
DOWN = b"\x1b[B"


def test_words_are_found_while_typed_and_replaced_one_by_one(terminal: Terminal) -> None:
    file = make_story(terminal.folder, TEXT)
    terminal.start(file)
    terminal.wait_for("The lantern went out.")
    terminal.press(CTRL_F)
    terminal.wait_for("tab edits there")
    terminal.type("lantern")
    terminal.wait_for("1 of 3")
    terminal.wait(lambda _: terminal.underlined() == ["lantern", "Lantern"], "the other matches highlighted")
    terminal.press(ESC)
    terminal.wait_without("tab edits there")
    terminal.wait(lambda _: not terminal.underlined(), "no more highlights")
    choose(terminal, "replace")
    terminal.wait_for("tab between the lines")
    terminal.press(TAB)
    terminal.type("lamp")
    terminal.press(ENTER)  # none is selected yet: this goes to the first
    terminal.wait_for("1 of 3")
    terminal.press(ENTER)
    terminal.wait_for("The lamp went out. She lit the lantern.")
    terminal.press(DOWN, ENTER)
    terminal.wait_for("No lamp burned.")
    terminal.wait_for("1 of 1")
    terminal.press(ESC)
    terminal.wait_without("tab between the lines")
    terminal.press(CTRL_Z)
    terminal.wait_for("No Lantern burned.")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == "The lamp went out. She lit the lantern. No Lantern burned."


def test_in_the_tree_a_note_never_runs_commands(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.rest(READ)
    terminal.press(b"1")
    terminal.wait_without("■")
    terminal.press(F3)
    terminal.wait_for("more branch")
    terminal.press(b"\x1b[A")
    terminal.wait_for("space shows them")
    terminal.press(b"n")
    terminal.wait_for("These branches are folded")
    terminal.press(*(character.encode() for character in "the mask, by x"))
    terminal.press(ESC)
    terminal.wait_without("These branches are folded")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(file, readonly=True) as story:
        assert not story.bin() and not story.bookmarks()
