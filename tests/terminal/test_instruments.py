"""Instruments that need no key of their own, as a writer finds them: through the menu, in a terminal."""

from __future__ import annotations

from tests.terminal.support import choose, ended, make_story, says_saved, text_of, to_branches
from tests.terminal.terminal import CTRL_Q, ENTER, Terminal

OPENING = (
    "It was a sunny day and the little girl went to the park to play with her friends. "
    "Nine copper umbrellas argued with the senator about the price of salt in Lisbon."
)


def test_branches_follow_a_wish_and_are_steered_and_say_so_after_a_restart(terminal: Terminal) -> None:
    file = make_story(terminal.folder, OPENING)
    terminal.start(file, "--n", "2", "--max-tokens", "120")
    terminal.wait(says_saved, "the first screen")
    choose(terminal, "ask_change")
    terminal.wait_for("Change in new branches")
    terminal.type("more rain")
    terminal.press(ENTER)
    terminal.wait_for("asked for: more rain")
    to_branches(terminal)
    choose(terminal, "steer")
    terminal.wait_for("Note for branch 1")
    terminal.type("It rains.")
    terminal.press(ENTER)
    terminal.wait_for("follows its note")
    terminal.wait(ended, "branches that have ended")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == OPENING
    terminal.start(file)
    terminal.wait(lambda shown: "asked for: more rain" in shown and "note" in shown, "what was asked for")
