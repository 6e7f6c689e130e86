"""What branches do not show, how they are drawn and ordered, and exploring: by their keys, in a terminal."""

from __future__ import annotations

import re

import pytest

from tests.terminal.support import make_story, node_texts, says_saved
from tests.terminal.terminal import CTRL_N, CTRL_Q, ESC, TAB, Terminal

STORY = "Once upon a time, there was a little fox who lived in the wood.\n\n"
ENTER, DOWN = b"\r", b"\x1b[B"

PROBABILITY = r" · (?:[\d.]+ %|1:\d+[kMG]?)"  # in the head of a branch


def begun(terminal: Terminal) -> None:
    """Branches have been written and have ended, and the first has the focus."""
    terminal.start(make_story(terminal.folder, STORY), "--max-tokens", "8", "--n", "4", "--seed", "3")
    terminal.wait(says_saved, "the first screen")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.count("full length") == 4, "four branches have ended")
    terminal.press(TAB)


def test_what_no_branch_shows_is_told_and_opens_as_a_branch(terminal: Terminal) -> None:
    begun(terminal)
    terminal.wait(lambda screen: re.search(r"shown \d+ %, not \S+ \d+ %", screen), "it is told at the foot")
    terminal.press(b"x")
    terminal.wait_for("of what could follow")
    terminal.press(ENTER)
    terminal.wait(lambda screen: re.search(r"(forced|↳)", screen), "a branch that was made to begin so")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert len(node_texts(terminal.folder / "tale.srbw")) >= 6


@pytest.mark.full
def test_likely_ways_are_shown_with_their_probability(terminal: Terminal) -> None:
    begun(terminal)
    terminal.press(b"^")
    terminal.wait(
        lambda screen: len(re.findall(PROBABILITY, screen)) >= 2,
        "branches with a probability",
    )
    terminal.press(b"1")
    terminal.wait(lambda screen: not re.search(PROBABILITY, screen), "those that follow are drawn")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0


@pytest.mark.full
def test_how_branches_differ_and_stand_is_chosen_from_lists(terminal: Terminal) -> None:
    begun(terminal)
    terminal.press(b"~")
    terminal.wait_for("How new branches differ")
    terminal.type("strat")
    terminal.press(ENTER)
    terminal.wait_for("spread evenly over what is likely")
    terminal.press(b":")
    terminal.wait_for("by difference")
    terminal.type("diff")
    terminal.press(ENTER)
    terminal.wait_without("Order of the branches")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
