"""Somebody types without a pause and the program is killed: what is older than a moment is on the disk.

Each place where words are typed has its way to begin, and its way to find what was kept after a new start.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from srbwriter.story import ROOT, Story
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import (
    OPENING,
    Loss,
    choose,
    loss,
    losses_within,
    make_story,
    report,
    steady,
    text_of,
    words_from,
)
from tests.terminal.terminal import BACKSPACE, CTRL_Q, CTRL_S, ESC, F7, Terminal

BOUND = 1.3
"""No character that is older than this (seconds) is ever lost."""

LONGEST = 3.2
"""Seconds of typing at most; at least 2."""

Kept = Callable[[Terminal, Path], str]


def start(terminal: Terminal, file: Path) -> None:
    terminal.start(file, "--max-tokens", "1000")
    terminal.wait_for(OPENING.strip())


def leave(terminal: Terminal) -> None:
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0


# ---- the story


def into_story(terminal: Terminal) -> None:
    pass


def kept_in_story(terminal: Terminal, file: Path) -> str:
    text = text_of(file)
    assert text.startswith(OPENING)
    return text[len(OPENING) :]


# ---- the memory, in the side panel


def into_memory(terminal: Terminal) -> None:
    choose(terminal, "memory")
    terminal.wait_for("saves by itself")


def kept_in_memory(terminal: Terminal, file: Path) -> str:
    with Story.open(file) as story:
        return story.settings(ROOT).memory or ""


# ---- a sheet


def into_sheet(terminal: Terminal) -> None:
    choose(terminal, "context")
    terminal.wait_for("edits the request")
    terminal.press(b"e")
    terminal.wait_for("^s keep")
    terminal.press(F7, BACKSPACE)  # F7 selects all


def kept_on_sheet(terminal: Terminal, file: Path) -> str:
    start(terminal, file)
    choose(terminal, "context")
    terminal.wait_for("edits the request")
    terminal.press(b"e")
    terminal.wait_for("^s keep")
    terminal.press(CTRL_S)
    terminal.wait_without("^s keep")
    terminal.press(ESC)
    terminal.wait_without("edits the request")
    leave(terminal)
    with Story.open(file, readonly=True) as story:
        return story.settings(ROOT).request or ""


PLACES: dict[str, tuple[Callable[[Terminal], None], Kept]] = {
    "story": (into_story, kept_in_story),
    "memory": (into_memory, kept_in_memory),
    "sheet": (into_sheet, kept_on_sheet),
}


def killed_while_typing(new_terminal: NewTerminal, place: str) -> Loss:
    begin, find = PLACES[place]
    chance = random.Random(place)
    terminal = new_terminal(place)
    file = make_story(terminal.folder)
    start(terminal, file)
    begin(terminal)
    end = time.monotonic() + chance.uniform(2.0, LONGEST)
    terminal.type_steadily(words_from(chance), steady(chance), until=end)
    moment = terminal.kill()
    typed = list(terminal.typed)
    return loss(place, typed, find(terminal, file), moment)


@pytest.mark.slow
def test_nothing_older_than_a_moment_is_lost_by_a_kill(new_terminal: NewTerminal) -> None:
    losses = losses_within(BOUND, [partial(killed_while_typing, new_terminal, place) for place in PLACES])
    report("killed while typing", losses)
    assert max(found.age for found in losses) <= BOUND
