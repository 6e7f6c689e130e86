"""Banned phrases, as a writer finds them: through keys, in a terminal."""

from __future__ import annotations

import re

from srbwriter.story import Story
from tests.terminal.support import choose, make_story, says_saved
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_S, ESC, Terminal

WROTE = re.compile(r"\d +■")


def begin(terminal: Terminal) -> None:
    terminal.start(
        make_story(terminal.folder, "Once upon a time there was a fox who lived in a wood."),
        "--max-tokens",
        "128",
    )
    terminal.wait(says_saved, "the first screen")


def write(terminal: Terminal) -> None:
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: len(WROTE.findall(screen)) >= 2, "branches have ended")


def test_what_is_banned_does_not_come_and_panes_say_so(terminal: Terminal) -> None:
    begin(terminal)
    write(terminal)
    choose(terminal, "bans")
    terminal.wait_for("happily ever after")
    terminal.type("\nthe fox\nthe big\nand the\nlittle girl")
    terminal.press(CTRL_S)
    terminal.wait_for("phrases banned.")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: re.search(r"⌫\d", screen) is not None, "a pane says that it went back")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(terminal.folder / "tale.srbw", readonly=True) as story:
        kept = story.value("knobs")
        assert isinstance(kept, dict) and "the fox" in str(kept["sampling"])
