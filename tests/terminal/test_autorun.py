"""Writing on without the writer, as they find it: through the menu, in a terminal."""

from __future__ import annotations

from tests.terminal.support import choose, make_story, says_saved, text_of, wait_for_model
from tests.terminal.terminal import CTRL_Q, ENTER, ESC, Terminal

OPENING = "Once upon a time there was a fox who lived in a wood."


def test_it_writes_on_and_stops(terminal: Terminal) -> None:
    file = make_story(terminal.folder, OPENING)
    terminal.start(file, "--max-tokens", "16")
    terminal.wait(says_saved, "the first screen")
    wait_for_model(terminal)
    choose(terminal, "autorun")
    terminal.wait_for("how many rounds")
    terminal.type("900")
    terminal.press(ENTER)
    terminal.wait_for("round 3 of 900")
    terminal.press(ESC)
    terminal.wait_for("Stopped after")
    assert OPENING in terminal.screen and "of 900" not in terminal.screen
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file).startswith(OPENING) and text_of(file) != OPENING
