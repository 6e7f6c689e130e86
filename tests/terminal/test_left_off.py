"""What was left stands there again: after the end, after a kill, and after another story."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from srbwriter.story import Story
from srbwriter.story.model import JsonObject, JsonValue, as_object
from tests.terminal.support import OPENING, choose, make_story, text_of
from tests.terminal.terminal import CTRL_N, CTRL_Q, ENTER, LEFT, RIGHT, TAB, Terminal

CTRL_O = b"\x0f"

WORD = 7  # characters from the cursor to the end of the story


def quit_and_start(terminal: Terminal, file: Path) -> None:
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    terminal.start(file)


def view_on_disk(file: Path) -> JsonObject:
    """What the story file says of the screen now."""
    with Story.open(file, readonly=True) as story:
        return as_object(as_object(cast(JsonValue, story.local_value("workspace"))).get("view"))


def kill_and_start(terminal: Terminal, file: Path) -> None:
    last = {"focus": "branch", "cursor": len(OPENING) - WORD}
    terminal.wait(lambda _: last.items() <= view_on_disk(file).items(), "the last change is on the disk")
    terminal.kill()
    terminal.start(file)


def desk(screen: str) -> str:
    """Story and panes: all but the line of the state and that of the keys."""
    return "\n".join(screen.splitlines()[:-2])


def states(screen: str) -> list[str]:
    """The signs of the states in the heads of the panes."""
    return re.findall(r"\b\d +([·…▸‖■!×])", screen)


def write_round(terminal: Terminal) -> None:
    """Write branches and wait for their end."""
    before = desk(terminal.screen)
    terminal.press(CTRL_N)
    terminal.wait(lambda shown: desk(shown) != before and shown.count("■") == 4, "branches that have ended")


def set_the_desk(terminal: Terminal, file: Path) -> str:
    """Three rounds, a kill, a star, a re-roll, another order, pane, cursor and layout."""
    # The number of times that a branch went back (⌫1) is not kept: here none does.
    terminal.configure(more='[keys]\norder = "0"\n')
    terminal.start(file, "-n", "4")
    terminal.wait_for(OPENING.strip())
    for _ in range(3):
        write_round(terminal)
    terminal.press(*[LEFT] * 4)  # no pane is chosen: this chooses one
    terminal.wait_for("BRANCH 1")
    old = desk(terminal.screen)
    terminal.press(b"r")
    terminal.wait(lambda shown: desk(shown) != old and shown.count("■") == 4, "a branch is written anew")
    terminal.press(RIGHT, b"k")
    terminal.wait_for("×")
    terminal.press(RIGHT, b"b")
    terminal.wait_for("★")
    terminal.press(b"0")
    terminal.wait_for("Order of the branches")
    terminal.type("likelihood")
    terminal.press(ENTER)
    terminal.wait_without("Order of the branches")
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.press(*[LEFT] * WORD, TAB)
    terminal.wait(all_is_shown, "four panes, the third of which has the keys")
    return desk(terminal.settled())  # the order and the layout are painted


def all_is_shown(screen: str) -> bool:
    return "BRANCH 3" in screen and "▌" in screen and sorted(states(screen)) == sorted("■■■×")


def test_the_number_of_branches_stays_with_the_story(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    choose(terminal, "more")
    quit_and_start(terminal, file)
    terminal.wait_for(OPENING.strip())
    terminal.press(CTRL_N)
    terminal.wait(lambda shown: states(shown) == ["■"] * 3, "one branch more than the settings say")


def test_the_desk_is_as_it_was(terminal: Terminal) -> None:
    file = make_story(terminal.folder / "data" / "srbwriter" / "library")
    left = set_the_desk(terminal, file)
    kill_and_start(terminal, file)
    terminal.wait(lambda shown: desk(shown) == left and "BRANCH 3" in shown, f"the desk as it was:\n{left}\n")
    terminal.press(TAB)
    terminal.wait_for("STORY")
    terminal.type("!")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(file) == OPENING[:-WORD] + "!" + OPENING[-WORD:]
