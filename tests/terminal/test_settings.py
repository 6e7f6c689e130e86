"""Settings for writing and all settings: the few that writers change first, then more; by their keys."""

from __future__ import annotations

import pytest

from srbwriter.story import Story
from tests.terminal.support import make_story, says_saved
from tests.terminal.terminal import CTRL_Q, ENTER, ESC, F10, RIGHT, Terminal

F2, END = b"\x1bOQ", b"\x1b[F"


@pytest.mark.full
def test_first_settings_are_changed_and_more_are_a_key_away(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait(says_saved, "the first screen")
    terminal.press(F2)
    first = terminal.wait_for("more settings")
    for label in ("Branches", "Longest branch", "End of a branch", "Min p", "Repetition (DRY)", "Banned"):
        assert label in first
    assert "Mirostat" not in first and "nob" not in first
    terminal.press(RIGHT)  # the cursor is on the temperature
    terminal.wait_for("* Temperature")
    terminal.press(END, ENTER, END)
    terminal.wait_for("Push branches apart")
    terminal.press(ESC, F10)
    terminal.wait(lambda screen: "All settings" in screen and "more settings" in screen, "all settings")
    assert "Theme" in terminal.screen and "mirostat" not in terminal.screen
    terminal.press(END, ENTER)
    terminal.wait_for("fewer settings")
    terminal.press(ESC, CTRL_Q)
    assert terminal.ended() == 0
    with Story.open(file, readonly=True) as story:
        assert story.value("knobs")["sampling"] == {"temperature": 0.85}  # type: ignore[index, call-overload]
