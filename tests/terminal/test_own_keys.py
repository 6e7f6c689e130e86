"""Keys of the writer's own, and what is said where they contradict each other."""

from __future__ import annotations

from tests.terminal.support import make_story, says_saved, text_of
from tests.terminal.terminal import ESC, F11, Terminal


def test_own_keys_open_a_screen_and_close_it_and_contradictions_are_said(terminal: Terminal) -> None:
    terminal.configure(more='[keys]\ntree = "f11"\nbookmark = "y"\nstop = "y"\npick = "k"\ntree_note = "y"\n')
    file = make_story(terminal.folder, "It rained.")
    terminal.start(file)
    terminal.wait(lambda screen: "No key is left for" in screen, "what is wrong")
    terminal.wait(says_saved, "the first screen")
    terminal.press(F11)
    terminal.wait_for("esc goes back")
    terminal.press(F11)
    terminal.wait_for("^q quit")
    terminal.press(F11, ESC)
    terminal.type(" So.")
    terminal.wait(lambda _: text_of(file) == "It rained. So.", "the words stand in the story")
