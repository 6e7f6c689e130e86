"""The disk takes nothing for a while, or the story's folder is gone: no word is lost."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.disk import Disk, MoodyDisk, SmallDisk, build, can_mount
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import (
    OPENING,
    foot,
    make_story,
    says_not_saved,
    says_saved,
    shows_question,
    steady,
    text_of,
    two_at_once,
    words_from,
)
from tests.terminal.terminal import CTRL_Q, CTRL_S, ESC, Terminal

SOON = 10.0  # seconds in which the screen tells of trouble, or of its end

SMALL = "a small disk is full"
CLOSED, FAILING = "read-only", "I/O errors"
MOODS = {CLOSED: "readonly", FAILING: "failing"}

Scenario = Callable[[Terminal, Disk], list[str]]
"""Says what is wrong with what came of it."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("library"))


@contextlib.contextmanager
def bad_disk(trouble: str, folder: Path, library: Path) -> Iterator[Disk]:
    """A disk of which ``fill`` makes what ``trouble`` says.

    Where nobody may mount a small one, a library that is loaded first says that it is full. A file system
    cannot be made read-only while a file in it is open for writing, so that is always the library's work.
    """
    if trouble == SMALL and can_mount(folder / "probe"):
        small = SmallDisk(folder / "disk")
        try:
            yield small
        finally:
            small.unmount()
    else:
        yield MoodyDisk(folder / "disk", library, MOODS.get(trouble, "full"))


def on_bad_disk(new_terminal: NewTerminal, library: Path, trouble: str, scenario: Scenario) -> list[str]:
    terminal = new_terminal(f"{scenario.__name__}, {trouble}")
    with bad_disk(trouble, terminal.folder, library) as disk:
        try:
            wrong = scenario(terminal, disk)
        finally:
            terminal.close()
    return [f"{scenario.__name__}, {trouble}: {fault}" for fault in wrong]


def typed(terminal: Terminal) -> str:
    return "".join(key.text for key in terminal.typed)


def answer(screen: str, meaning: str) -> bytes:
    """The key that a question on the screen gives for ``meaning``."""
    found = re.search(rf"(\S+) (?:\w+ )?{meaning}", screen)
    assert found, f"no answer for {meaning!r}:\n{screen}"
    return {"enter": b"\r", "esc": ESC}.get(found[1], found[1].encode())


def happened(wrong: list[str], terminal: Terminal, ready: Callable[[str], object], what: str) -> bool:
    """Whether the screen shows something soon; what it shows instead is one more thing that is wrong."""
    try:
        terminal.wait(ready, what, SOON)
    except AssertionError as error:
        wrong.append(str(error))
        return False
    return True


def begin(terminal: Terminal, disk: Disk) -> Path:
    """The program on a story, with words on its good disk and more typed after it became a bad one."""
    chance = random.Random("trouble")
    file = make_story(disk.folder)
    terminal.start(file, env=disk.environment)
    terminal.wait_for(OPENING.strip())
    terminal.type("Well then. ")
    terminal.wait_for("Well then.")
    disk.fill()
    terminal.type_steadily(words_from(chance, 70), steady(chance, 0.05, 0.1))
    terminal.wait(says_not_saved, "saying that it is not saved", SOON)
    return file


def well_again(terminal: Terminal, disk: Disk) -> list[str]:
    """What was typed while the disk took nothing is saved when it does again, and once."""
    file = begin(terminal, disk)
    wrong: list[str] = []
    before = len(terminal.log)
    terminal.press(CTRL_S)
    terminal.type_steadily(" and on it went", [0.08] * 15)
    terminal.wait_for("and on it went")
    if b"Saved" in terminal.log[before:]:
        wrong.append("ctrl+s says that it is saved")
    if not says_not_saved(terminal.screen):
        wrong.append(f"while the disk takes nothing the foot says: {foot(terminal.screen)}")

    terminal.press(CTRL_Q)
    if happened(wrong, terminal, shows_question, "a question before leaving"):
        terminal.press(ESC)
        happened(wrong, terminal, lambda screen: not shows_question(screen), "going back to the story")

    disk.free()
    saved = happened(wrong, terminal, says_saved, "saying that it is saved")
    if saved and text_of(file) != OPENING + typed(terminal):
        wrong.append(f"the file says {text_of(file)!r} when the screen says saved")
    if terminal.running:
        terminal.type("!")
        terminal.press(CTRL_Q)
        terminal.ended()
    if (text := text_of(file)) != OPENING + typed(terminal):
        wrong.append(f"at the end the file says {text!r}, typed was {typed(terminal)!r}")
    return wrong


def rescued(terminal: Terminal) -> list[str]:
    """Texts of files below the state folder, without the log."""
    files = [file for file in terminal.state.rglob("*") if file.is_file() and "logs" not in file.parts]
    return [file.read_bytes().decode("utf-8", "replace") for file in files]


def left_nevertheless(terminal: Terminal, disk: Disk) -> list[str]:
    """Who leaves while the disk takes nothing finds the words in a rescue file."""
    wrong: list[str] = []
    begin(terminal, disk)
    terminal.press(CTRL_Q)
    if happened(wrong, terminal, shows_question, "a question before leaving"):
        terminal.press(answer(terminal.screen, "leave"))
    terminal.ended()
    if not any(typed(terminal).strip() in text for text in rescued(terminal)):
        wrong.append(f"the words are in none of {rescued(terminal)}")
    return wrong


@pytest.mark.slow
def test_a_disk_that_takes_nothing_for_a_while_loses_no_word(
    new_terminal: NewTerminal, library: Path
) -> None:
    which = [(SMALL, well_again), (CLOSED, left_nevertheless), (FAILING, well_again)]
    wrong = two_at_once([partial(on_bad_disk, new_terminal, library, *one) for one in which])
    faults = [fault for found in wrong for fault in found]
    assert not faults, "\n".join(faults)
