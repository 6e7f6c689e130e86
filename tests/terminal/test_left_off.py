"""What was left stands there again: after the end, after a kill, and after another story."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from srbwriter.story import Story
from tests.terminal.support import OPENING, make_story, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, LEFT, RIGHT, TAB, Terminal

CTRL_O = b"\x0f"

AS_OF_SECONDS = 1.0  # a kill loses no more than this


def quit_and_start(terminal: Terminal, file: Path) -> None:
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    terminal.start(file)


def kill_and_start(terminal: Terminal, file: Path) -> None:
    # The promise is about time: what was done a second ago is there again.
    terminal.rest(AS_OF_SECONDS)
    terminal.kill()
    terminal.start(file)


def go_and_come_back(terminal: Terminal, file: Path) -> None:
    for title, shown in (("orchard", "Apples."), ("tale", OPENING.strip())):
        terminal.press(CTRL_O)
        terminal.wait_for("Stories, last changed first")
        terminal.type(title)
        terminal.wait_without("this one")
        terminal.press(ENTER)
        terminal.wait_for(shown)


WAYS: list[Callable[[Terminal, Path], None]] = [quit_and_start, kill_and_start, go_and_come_back]


def desk(screen: str) -> str:
    """Story and panes: all but the line of the state and that of the keys."""
    return "\n".join(screen.splitlines()[:-2])


def write_round(terminal: Terminal) -> None:
    """Write branches and wait for their end."""
    before = desk(terminal.screen)
    terminal.press(CTRL_N)
    terminal.wait(lambda shown: desk(shown) != before and shown.count("■") == 4, "branches that have ended")


def set_the_desk(terminal: Terminal, file: Path) -> str:
    """Three rounds, a kill, a star, a rating, a lock, a re-roll, another order, pane, cursor and layout."""
    terminal.configure(more='[keys]\norder = "0"\nrate_up = "U"\n')
    terminal.start(file, "-n", "4")
    terminal.wait_for(OPENING.strip())
    for _ in range(3):
        write_round(terminal)
    terminal.press(*[LEFT] * 4)  # no pane is chosen: this chooses one
    terminal.wait_for("BRANCH 1")
    old = desk(terminal.screen)
    terminal.press(b"r")
    terminal.wait(lambda shown: desk(shown) != old and shown.count("■") == 4, "a branch is written anew")
    terminal.press(b"l")
    terminal.wait_for("lock")
    terminal.press(RIGHT, b"k")
    terminal.wait_for("×")
    terminal.press(RIGHT, b"b", b"U")
    terminal.wait_for("★")
    terminal.press(b"0")
    terminal.wait_for("Order of the branches")
    terminal.type("length")
    terminal.press(ENTER)
    terminal.wait_without("Order of the branches")
    terminal.press(b"v")
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.press(*[LEFT] * 7, TAB)
    terminal.wait_for("BRANCH 3")
    return desk(terminal.screen)


@pytest.mark.parametrize("leave", WAYS)
def test_the_desk_is_as_it_was(terminal: Terminal, leave: Callable[[Terminal, Path], None]) -> None:
    file = make_story(terminal.folder / "data" / "srbwriter" / "library")
    with Story.create(file.parent / "orchard.srbw", "The Orchard") as orchard:
        orchard.append("Apples.")
    left = set_the_desk(terminal, file)
    leave(terminal, file)
    terminal.wait(lambda shown: desk(shown) == left and "BRANCH 3" in shown, f"the desk as it was:\n{left}\n")
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.type("!")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(file) == OPENING[:-7] + "!" + OPENING[-7:]
