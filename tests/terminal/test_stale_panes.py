"""The text before the branches changes: in the program, as a writer meets it."""

from __future__ import annotations

from tests.terminal.support import OPENING, node_texts, text_of, with_branches
from tests.terminal.terminal import CTRL_Q, ESC, TAB, Terminal

HOME = b"\x1b[1;5H"


def test_a_pick_of_branches_written_for_an_earlier_text_asks_and_loses_no_letter(terminal: Terminal) -> None:
    file = with_branches(terminal)
    before = node_texts(file)
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.press(HOME)
    terminal.type("All day. ")
    terminal.press(ESC)
    terminal.wait(lambda screen: screen.count("earlier text") >= 2, "the panes say so")
    terminal.press(b"2")
    terminal.wait_for("takes it all the same")
    terminal.press(b"t")
    terminal.wait(lambda _: len(text_of(file)) > len(f"All day. {OPENING}"), "the branch is in the story")
    taken = text_of(file).removeprefix(f"All day. {OPENING}")
    assert taken in before and taken in node_texts(file)
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
