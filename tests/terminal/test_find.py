"""Find and replace, as keys in a terminal."""

from __future__ import annotations

from tests.terminal.support import choose, make_story, text_of
from tests.terminal.terminal import CTRL_F, CTRL_Q, CTRL_Z, ENTER, ESC, TAB, Terminal

TEXT = "The lantern went out. She lit the lantern. No Lantern burned."
DOWN = b"\x1b[B"


def test_words_are_found_while_typed_and_replaced_one_by_one(terminal: Terminal) -> None:
    file = make_story(terminal.folder, TEXT)
    terminal.start(file)
    terminal.wait_for("The lantern went out.")
    terminal.press(CTRL_F)
    terminal.wait_for("tab stays there")
    terminal.type("lantern")
    terminal.wait_for("1 of 3")
    terminal.wait(lambda _: terminal.underlined() == ["lantern", "Lantern"], "the other matches highlighted")
    terminal.press(ESC)
    terminal.wait_without("tab edits there")
    terminal.wait(lambda _: not terminal.underlined(), "no more highlights")
    choose(terminal, "replace")
    terminal.wait_for("skips it")
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
    terminal.wait_without("skips it")
    terminal.press(CTRL_Z)
    terminal.wait_for("No Lantern burned.")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == "The lamp went out. She lit the lantern. No Lantern burned."
