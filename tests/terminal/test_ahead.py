"""Picks without waiting, in a terminal: what is ready is said, and shown at once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.terminal.support import OPENING, foot, make_story, node_texts, says_saved, text_of, with_branches
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_Z, ENTER, F5, RIGHT, TAB, Terminal

PANES = 2


def ready(screen: str, panes: int = 1) -> bool:
    """Whether so many heads say that what follows is ready."""
    heads = [line for line in screen.splitlines() if "■" in line]
    return sum(len(re.findall(r"»(?!\d)", head)) for head in heads) >= panes


def begun(screen: str) -> bool:
    """Whether something is written ahead, or has been."""
    return "» ahead" in screen or "▸ ahead" in screen


def test_a_pick_shows_the_next_branches_written(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.wait(ready, "what follows the first branch is ready")
    before = text_of(file)
    seen = len(terminal.log)
    terminal.press(ENTER)
    terminal.wait(lambda _: len(text_of(file)) > len(before), "the branch is part of the story")
    texts = 2 + 2 * PANES  # the root, the opening, and two rounds
    terminal.wait(lambda shown: ready(shown) and len(node_texts(file)) == texts, "the next, and what follows")
    assert b"writing" not in terminal.log[seen:], "they stood there when they were first shown"
    terminal.press(CTRL_Z)
    terminal.wait(lambda _: text_of(file) == before, "undo takes the pick back")
    terminal.wait(ready, "and what follows is written again")
    terminal.press(b"1")
    terminal.wait(lambda _: len(text_of(file)) > len(before), "the branch is part of the story once more")


@pytest.mark.full
def test_the_focus_leads_and_the_key_says_how_much(terminal: Terminal) -> None:
    with_branches(terminal)
    terminal.wait(ready, "what follows the first branch is ready")
    terminal.press(RIGHT)
    terminal.wait(lambda screen: ready(screen, 2), "what follows the second one is ready, too")
    terminal.press(F5)
    terminal.wait_for("What follows each branch")
    terminal.press(b",")
    terminal.wait_for("Nothing is written ahead")
    terminal.wait(lambda screen: not ready(screen), "nothing is ready any more")
    terminal.press(b",")
    terminal.wait_for("What follows the branch in focus")
    terminal.wait(lambda screen: "ahead" in foot(screen), "the foot says how much")


def test_words_typed_meanwhile_are_saved_and_what_was_written_ahead_is_gone(terminal: Terminal) -> None:
    file = with_branches(terminal)
    terminal.wait(begun, "something is written ahead")
    terminal.press(TAB)
    terminal.type(" Nobody came.")
    terminal.wait(lambda _: text_of(file) == f"{OPENING} Nobody came.", "the words are in the file")
    terminal.wait(lambda screen: not ready(screen), "nothing is ready any more")
    before = len(node_texts(file))
    terminal.press(CTRL_N)  # what it asks for may have been written ahead by now
    terminal.wait(lambda _: len(node_texts(file)) == before + PANES, "new branches follow the words")
    terminal.wait(lambda screen: says_saved(screen) and screen.count("■") >= PANES, "and end")
    assert text_of(file) == f"{OPENING} Nobody came."


def test_quitting_meanwhile_leaves_nothing_that_was_not_picked(terminal: Terminal) -> None:
    config = terminal.folder / "config" / "srbwriter" / "config.toml"
    told = "max_tokens = 900\n[instruments]\nlook_ahead = 'all'\nlook_ahead_tokens = 100000\n"
    config.write_text(config.read_text("utf-8") + told, "utf-8")
    file: Path = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    terminal.press(CTRL_N)
    terminal.wait(begun, "something is written ahead")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert len(node_texts(file)) == 2 + PANES
