"""Each save takes a second: typing goes on meanwhile, and no way out of the program loses a word."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.fakes.disk import MoodyDisk, build
from tests.sizes import few_or_all
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
from tests.terminal.terminal import CTRL_Q, CTRL_Y, CTRL_Z, Terminal
from tests.terminal.test_steady_typing import PLACES, kept_in_story

BOUND = 2.0
"""No character that is older than two saves is lost when the program is killed."""

GONE = 5.0
"""Seconds from a signal, and the save that is under way then, to the end of the program."""

KILLS = {False: {"memory": 1}, True: {"story": 8, "memory": 4, "sheet": 2, "note": 2, "branch": 2}}
LONGEST = {False: 4.0, True: 6.0}  # seconds of typing; at least 3
WAYS_OUT = {False: [signal.SIGTERM], True: [signal.SIGTERM, signal.SIGHUP]}


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


def killed(new_terminal: NewTerminal, library: Path, longest: float, place: str, seed: int) -> Loss:
    begin, find = PLACES[place]
    chance = random.Random(f"slow {place} {seed}")
    terminal = new_terminal(f"{place}-{seed}")
    file, disk = start(terminal, library)
    begin(terminal)
    end = time.monotonic() + chance.uniform(3.0, longest)
    terminal.type_steadily(words_from(chance), steady(chance), until=end)
    moment = terminal.kill()
    typed = list(terminal.typed)
    return loss(f"{place} {seed}, {disk.delayed} saves", typed, find(terminal, file), moment)


def killed_after_three_saves(new_terminal: NewTerminal, library: Path) -> Loss:
    """The first save of all is no longer than any other, although it begins SQLite's log."""
    chance = random.Random(1)
    terminal = new_terminal("first")
    file, _ = start(terminal, library)
    terminal.type_steadily(words_from(chance), steady(chance), until=time.monotonic() + 3.3)
    moment = terminal.kill()
    return loss("the first saves", list(terminal.typed), kept_in_story(terminal, file), moment)


@few_or_all
def test_nothing_older_than_two_saves_is_lost(new_terminal: NewTerminal, library: Path, full: bool) -> None:
    acts = [
        partial(killed, new_terminal, library, LONGEST[full], place, seed)
        for place, moments in KILLS[full].items()
        for seed in range(moments)
    ]
    acts.append(partial(killed_after_three_saves, new_terminal, library))
    losses = losses_within(BOUND, acts)
    report("killed while each save takes a second", losses)
    assert max(found.age for found in losses) <= BOUND


PAUSE = 0.55
"""Seconds after which the saving of what was typed before has begun, and is far from its end."""


@dataclass(frozen=True, slots=True)
class InTwoParts:
    """Words, a pause, and more words while the first ones are being saved; then ``rest`` seconds and keys."""

    new_terminal: NewTerminal
    library: Path
    name: str
    rest: float

    def begin(self) -> tuple[Terminal, Path, MoodyDisk]:
        terminal = self.new_terminal(f"{self.name} after {self.rest}")
        file, disk = start(terminal, self.library)
        terminal.type("alpha ")
        terminal.rest(PAUSE)
        terminal.type("beta")  # whether or not the screen keeps up
        terminal.rest(self.rest)
        return terminal, file, disk

    def leave(self, terminal: Terminal, file: Path, disk: MoodyDisk) -> str:
        """The text after the writer has left."""
        terminal.press(CTRL_Q)
        assert terminal.ended() == 0
        assert disk.delayed
        return text_of(file)

    def quit(self) -> None:
        terminal, file, disk = self.begin()
        assert self.leave(terminal, file, disk) == f"{OPENING}alpha beta"

    def undo_and_redo(self) -> None:
        terminal, file, disk = self.begin()
        terminal.press(CTRL_Z, CTRL_Y)
        terminal.type("!")
        terminal.wait_for("!")
        assert self.leave(terminal, file, disk) == f"{OPENING}alpha beta!"

    def undo_and_quit(self) -> None:
        terminal, file, disk = self.begin()
        terminal.press(CTRL_Z)
        terminal.rest(self.rest)
        text = self.leave(terminal, file, disk)
        typed = f"{OPENING}alpha beta"  # a machine that is busy elsewhere saves half a word now and then
        assert text.startswith(OPENING) and typed.startswith(text) and text != typed

    def __call__(self) -> str:
        """What went wrong; empty if nothing did."""
        try:
            getattr(self, self.name)()
        except AssertionError as error:
            return f"{self.name}, {self.rest} s after the last key: {error}"
        return ""


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


@few_or_all
def test_nothing_is_lost_when_the_writer_leaves_or_the_system_ends_the_program(
    new_terminal: NewTerminal, library: Path, full: bool
) -> None:
    every = product(("quit", "undo_and_redo", "undo_and_quit"), (PAUSE, 0.0))
    usual = [("quit", 0.0)]
    acts: list[Callable[[], str]] = [partial(ended, new_terminal, library, way) for way in WAYS_OUT[full]]
    acts += [InTwoParts(new_terminal, library, name, rest) for name, rest in (every if full else usual)]
    wrong = [fault for fault in two_at_once(acts) if fault]
    assert not wrong, "\n".join(wrong)
