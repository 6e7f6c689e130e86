"""Judging and banned phrases, as a writer finds them: through keys, in a terminal."""

from __future__ import annotations

import re

import pytest

from srbwriter.story import Story
from tests.terminal.support import make_story, says_saved
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_S, ESC, TAB, Terminal

F7 = b"\x1b[18~"
WROTE = re.compile(r"full length|the end")


def begin(terminal: Terminal) -> None:
    terminal.start(make_story(terminal.folder, "Once upon a time there was a fox who lived in a wood."))
    terminal.wait(says_saved, "the first screen")


def write(terminal: Terminal) -> None:
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: len(WROTE.findall(screen)) >= 2, "branches have ended")


@pytest.mark.full
def test_ended_branches_get_scores_and_lose_them_when_they_are_rolled_again(terminal: Terminal) -> None:
    begin(terminal)
    write(terminal)
    terminal.press(F7)
    terminal.wait(lambda screen: len(re.findall(r"✓\d+", screen)) >= 2, "scores stand in the heads")
    before = len(re.findall(r"✓\d+", terminal.screen))
    terminal.press(TAB, b"r")
    terminal.wait(lambda screen: len(re.findall(r"✓\d+", screen)) < before, "a branch is another one")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0


@pytest.mark.full
def test_a_rubric_is_the_storys(terminal: Terminal) -> None:
    begin(terminal)
    write(terminal)
    terminal.press(TAB, b"(")
    terminal.wait_for("Does this passage keep")
    terminal.type("Is it raining?")
    terminal.press(CTRL_S)
    terminal.wait_without("Does this passage keep")
    terminal.press(b";")
    terminal.wait_for("3 questions")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(terminal.folder / "tale.srbw", readonly=True) as story:
        assert "Is it raining?" in str(story.value("rubric"))


def test_what_is_banned_does_not_come_and_panes_say_so(terminal: Terminal) -> None:
    begin(terminal)
    write(terminal)
    terminal.press(TAB, b")")
    terminal.wait_for("happily ever after")
    terminal.type("\nthe fox\nhe was\none day")
    terminal.press(CTRL_S)
    terminal.wait_for("phrases will not come")
    terminal.press(b"g")
    terminal.wait(lambda screen: re.search(r"⌫\d", screen) is not None, "a pane says that it went back")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(terminal.folder / "tale.srbw", readonly=True) as story:
        kept = story.value("knobs")
        assert isinstance(kept, dict) and "the fox" in str(kept["sampling"])
