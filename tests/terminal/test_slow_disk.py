"""Each save takes a second: typing goes on meanwhile, and no way out of the program loses a word."""

from __future__ import annotations

import random
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.disk import MoodyDisk, build
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import (
    OPENING,
    Loss,
    loss,
    losses_within,
    make_story,
    report,
    steady,
    text_of,
    two_at_once,
    words_from,
)
from tests.terminal.terminal import CTRL_Q, Terminal
from tests.terminal.test_steady_typing import PLACES, kept_in_story

BOUND = 2.0
"""No character that is older than two saves is lost when the program is killed."""

GONE = 5.0
"""Seconds from a signal, and the save that is under way then, to the end of the program."""

LONGEST = 4.0  # seconds of typing; at least 3


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


def start(terminal: Terminal, library: Path, seconds: int = 1) -> tuple[Path, MoodyDisk]:
    """The program with a story on a disk that is slow from now on: each save takes ``seconds``."""
    disk = MoodyDisk(terminal.folder / "disk", library, seconds=seconds)
    file = make_story(disk.folder)
    terminal.start(file, "--max-tokens", "1000", env=disk.environment)
    terminal.wait_for(OPENING.strip())
    disk.slow_down()
    return file, disk


def killed(new_terminal: NewTerminal, library: Path, place: str) -> Loss:
    begin, find = PLACES[place]
    chance = random.Random(f"slow {place}")
    terminal = new_terminal(place)
    file, disk = start(terminal, library)
    begin(terminal)
    end = time.monotonic() + chance.uniform(3.0, LONGEST)
    terminal.type_steadily(words_from(chance), steady(chance), until=end)
    moment = terminal.kill()
    typed = list(terminal.typed)
    return loss(f"{place}, {disk.delayed} saves", typed, find(terminal, file), moment)


def killed_after_three_saves(new_terminal: NewTerminal, library: Path) -> Loss:
    """The first save of all is no longer than any other, although it begins SQLite's log."""
    chance = random.Random(1)
    terminal = new_terminal("first")
    file, _ = start(terminal, library)
    terminal.type_steadily(words_from(chance), steady(chance), until=time.monotonic() + 3.3)
    moment = terminal.kill()
    return loss("the first saves", list(terminal.typed), kept_in_story(terminal, file), moment)


@pytest.mark.slow
def test_nothing_older_than_two_saves_is_lost(new_terminal: NewTerminal, library: Path) -> None:
    acts = [partial(killed, new_terminal, library, place) for place in ("story", "memory")]
    acts.append(partial(killed_after_three_saves, new_terminal, library))
    losses = losses_within(BOUND, acts)
    report("killed while each save takes a second", losses)
    assert max(found.age for found in losses) <= BOUND


def left(new_terminal: NewTerminal, library: Path) -> str:
    """What is lost when the writer leaves while words are being saved; empty if nothing is."""
    terminal = new_terminal("left")
    file, _ = start(terminal, library)
    terminal.type("alpha ")
    terminal.rest(0.55)  # its saving has begun, and is far from its end
    terminal.type("beta")  # whether or not the screen keeps up
    terminal.press(CTRL_Q)
    code = terminal.ended()
    text = text_of(file)
    return "" if (code, text) == (0, f"{OPENING}alpha beta") else f"left: {text!r}, exit code {code}"


def ended(new_terminal: NewTerminal, library: Path, way: signal.Signals) -> str:
    """What is lost when the system ends the program in the middle of typing; empty if nothing is."""
    chance = random.Random(way.name)
    terminal = new_terminal(way.name)
    file, disk = start(terminal, library, 2)
    terminal.type_steadily(words_from(chance, 15), steady(chance, 0.06, 0.2))
    terminal.type("|")
    terminal.wait_for("|")  # a busy machine reads keys late
    moment = terminal.kill(way)
    code = terminal.ended()
    seconds = time.monotonic() - moment
    found = loss(way.name, terminal.typed, text_of(file)[len(OPENING) :], moment)
    gone = seconds < disk.seconds + GONE
    good = found.kept == found.typed and code == 128 + way and gone
    return "" if good else f"{found}, exit code {code} after {seconds:.1f} s"


@pytest.mark.slow
def test_nothing_is_lost_when_the_writer_leaves_or_the_system_ends_the_program(
    new_terminal: NewTerminal, library: Path
) -> None:
    acts = [partial(ended, new_terminal, library, signal.SIGTERM), partial(left, new_terminal, library)]
    wrong = [fault for fault in two_at_once(acts) if fault]
    assert not wrong, "\n".join(wrong)
