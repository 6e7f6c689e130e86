"""What branches do not show, by its keys, in a terminal."""

from __future__ import annotations

import re

from tests.terminal.support import choose, make_story, node_texts, says_saved
from tests.terminal.terminal import CTRL_N, CTRL_Q, TAB, Terminal

STORY = "Once upon a time, there was a little fox who lived in the wood.\n\n"
ENTER, DOWN = b"\r", b"\x1b[B"


def begun(terminal: Terminal) -> None:
    """Branches have been written and have ended, and the first has the focus."""
    terminal.columns = 200  # room for all figures of the engine
    terminal.start(make_story(terminal.folder, STORY), "--max-tokens", "8", "--n", "4", "--seed", "3")
    terminal.wait(says_saved, "the first screen")
    terminal.press(CTRL_N)
    terminal.wait(lambda screen: screen.count("■") == 4, "four branches have ended")
    terminal.press(TAB)


def test_what_no_branch_shows_is_told_and_opens_as_a_branch(terminal: Terminal) -> None:
    begun(terminal)
    choose(terminal, "unexplored")
    terminal.wait_for("of likely beginnings")
    terminal.press(ENTER)
    terminal.wait(
        lambda screen: re.search(r"(chosen by you|↳)", screen), "a branch that was made to begin so"
    )
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert len(node_texts(terminal.folder / "tale.srbw")) >= 6
