"""What was left stands there again: after the end, and after a kill."""

from __future__ import annotations

import re

from tests.terminal.support import OPENING, choose, ended, text_of, with_branches
from tests.terminal.terminal import CTRL_N, CTRL_Q, LEFT, TAB, Terminal

_THREE = re.compile(r"^ +1 .* 2 .* 3\b", re.M)
WORD = 7  # characters from the cursor to the end of the story


def test_the_branches_and_the_cursor_stand_where_they_were_after_a_kill(terminal: Terminal) -> None:
    file = with_branches(terminal)
    choose(terminal, "more")
    terminal.press(CTRL_N)
    terminal.wait(lambda shown: _THREE.search(shown) and ended(shown), "one branch more")
    terminal.press(TAB, TAB, *[LEFT] * WORD)
    terminal.type("!")
    typed = f"{OPENING[:-WORD]}!{OPENING[-WORD:]}"
    terminal.wait(lambda _: text_of(file) == typed, "the letter is on the disk")
    terminal.kill()
    terminal.start(file)
    terminal.wait(lambda shown: _THREE.search(shown) and "earlier text" in shown, "the branches")
    terminal.type("?")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == typed.replace("!", "!?")
