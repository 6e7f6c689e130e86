"""Picks without waiting, in a terminal: what is ready is said, and shown at once."""

from __future__ import annotations

import re
from pathlib import Path

from tests.terminal.support import (
    OPENING,
    READ,
    ended,
    make_story,
    node_texts,
    says_saved,
    text_of,
    to_branches,
    with_branches,
)
from tests.terminal.terminal import CTRL_N, CTRL_Q, CTRL_Z, ENTER, Terminal

PANES = 2


def ready(screen: str, panes: int = 1) -> bool:
    """Whether so many heads say that what follows is ready."""
    return len(re.findall(r"\d +(?:.* · )?ready\b", screen)) >= panes


def test_a_pick_shows_the_next_branches_written_and_words_typed_meanwhile_do_away_with_them(
    terminal: Terminal,
) -> None:
    terminal.configure("focused", 128)
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
    terminal.rest(READ)
    terminal.press(b"1")
    terminal.wait(lambda _: len(text_of(file)) > len(before), "the branch is part of the story once more")
    terminal.wait(ready, "something is written ahead")
    typed = f"{text_of(file)} Nobody came."
    terminal.type(" Nobody came.")
    terminal.wait(lambda _: text_of(file) == typed, "the words are in the file")
    terminal.wait(lambda screen: not ready(screen), "nothing is ready any more")
    count = len(node_texts(file))
    terminal.press(CTRL_N)  # what it asks for may have been written ahead by now
    terminal.wait(lambda _: len(node_texts(file)) == count + PANES, "new branches follow the words")
    terminal.wait(lambda screen: says_saved(screen) and ended(screen), "and end")
    assert text_of(file) == typed


def test_quitting_meanwhile_leaves_nothing_that_was_not_picked(terminal: Terminal) -> None:
    terminal.configure("all", 400, "look_ahead_tokens = 100000\n")
    file: Path = make_story(terminal.folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    terminal.press(CTRL_N)
    to_branches(terminal)
    terminal.wait(ready, "something is written ahead")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert len(node_texts(file)) == 2 + PANES
