"""The system ends or stops the program in the middle of typing: not one word is lost."""

from __future__ import annotations

import random
import signal
from functools import partial

import pytest

from tests.terminal.conftest import NewTerminal
from tests.terminal.support import (
    OPENING,
    Loss,
    loss,
    make_story,
    report,
    says_saved,
    text_of,
    two_at_once,
    words_from,
)
from tests.terminal.terminal import (
    CTRL_Q,
    LEFT_ALTERNATE_SCREEN,
    PASTE_MODE,
    Terminal,
)
from tests.terminal.test_steady_typing import PLACES, start

HANG_UP = "hang up"
ENDS = [("story", HANG_UP), ("sheet", signal.SIGTERM), ("memory", signal.SIGHUP)]


def interrupted(new_terminal: NewTerminal, place: str, way: signal.Signals | str) -> Loss:
    begin, find = PLACES[place]
    name = f"{place}, {way if isinstance(way, str) else way.name}"
    terminal = new_terminal(name)
    file = make_story(terminal.folder)
    start(terminal, file)
    begin(terminal)
    terminal.type_steadily(words_from(random.Random(name), 20), [0.05] * 20)
    terminal.type("|")
    terminal.wait_for("|")  # a signal may overtake keys that have not been read
    if isinstance(way, signal.Signals):
        moment = terminal.kill(way)
        assert terminal.ended() == 128 + way
        terminal.wait(lambda _: LEFT_ALTERNATE_SCREEN in terminal.log, "the alternate screen is left")
    else:
        moment = terminal.hang_up()
        terminal.ended()
    typed = list(terminal.typed)
    return loss(name, typed, find(terminal, file), moment)


@pytest.mark.slow
def test_nothing_is_lost_when_the_system_ends_the_program(new_terminal: NewTerminal) -> None:
    losses = two_at_once([partial(interrupted, new_terminal, place, way) for place, way in ENDS])
    report("ended by the system while typing", losses)
    assert not [str(found) for found in losses if found.kept < found.typed]


STOPPED = "[the job has stopped]"


def test_the_shell_stops_the_program_and_typing_goes_on(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file, job=True)
    terminal.wait_for(OPENING.strip())
    terminal.type("before |")
    terminal.wait_for("before |")
    terminal.kill(signal.SIGTSTP)
    terminal.wait_for(STOPPED)
    assert text_of(file) == f"{OPENING}before |"  # nobody knows when it goes on, or whether it does
    terminal.go_on()
    terminal.wait_without(STOPPED)
    terminal.type("after")
    terminal.type("!")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert text_of(file) == f"{OPENING}before |after!"


PASTED = "\n".join(f"Line {number}: the lamp went out, and nobody came." for number in range(2900))
"""About 137 kB, more than any queue of a terminal holds."""

STOPS = [signal.SIGSTOP, signal.SIGTSTP, signal.SIGSTOP]


def test_a_paste_is_whole_however_often_the_program_was_stopped(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file, job=True)
    terminal.wait(says_saved, "the whole first screen: half an escape sequence would swallow what follows")
    for stop in STOPS:
        terminal.kill(stop)
        terminal.wait_for(STOPPED)
        modes = len(terminal.log)
        terminal.go_on()
        terminal.wait(lambda _, at=modes: PASTE_MODE in terminal.log[at:], "bracketed paste is on again")
        terminal.wait_without(STOPPED)
    terminal.paste(PASTED)
    terminal.type("|")
    terminal.wait(lambda _: text_of(file) == f"{OPENING}{PASTED}|", "all of the paste is in the story")
    terminal.kill(signal.SIGTERM)
    assert terminal.ended(within=10) == 128 + signal.SIGTERM


def test_the_program_ends_when_its_terminal_goes_without_a_signal(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    terminal.start(file, alone=True)
    terminal.wait_for(OPENING.strip())
    terminal.type("before |")
    terminal.wait_for("before |")
    terminal.hang_up()
    assert terminal.ended() == 128 + signal.SIGHUP
    assert text_of(file) == f"{OPENING}before |"
