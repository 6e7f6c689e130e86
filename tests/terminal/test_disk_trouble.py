"""The disk takes nothing for a while, or the story's folder is gone: no word is lost."""

from __future__ import annotations

import contextlib
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal.disk import Disk, MoodyDisk, SmallDisk, build, can_mount
from tests.terminal.support import (
    FULL,
    OPENING,
    foot,
    make_story,
    says_not_saved,
    says_saved,
    steady,
    text_of,
    words_from,
)
from tests.terminal.terminal import CTRL_Q, CTRL_S, ESC, Terminal

SOON = 10.0  # seconds in which the screen tells of trouble, or of its end

TROUBLES = ["full", "readonly", "full, by a library"] if FULL else ["full", "readonly"]


@pytest.fixture
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    """A disk of which ``fill`` makes what the parameter says."""
    trouble: str = request.param
    folder = tmp_path / "disk"
    if trouble == "full" and can_mount(tmp_path / "probe"):
        small = SmallDisk(folder)
        yield small
        small.unmount()
    else:  # a file system cannot be made read-only while a file in it is open for writing
        yield MoodyDisk(folder, build(tmp_path), "readonly" if trouble == "readonly" else "full")


def answer(screen: str, meaning: str) -> bytes:
    """The key that a question on the screen gives for ``meaning``."""
    found = re.search(rf"(\S+) (?:\w+ )?{meaning}", screen)
    assert found, f"no answer for {meaning!r}:\n{screen}"
    return {"enter": b"\r", "esc": ESC}.get(found[1], found[1].encode())


def typed(terminal: Terminal) -> str:
    return "".join(key.text for key in terminal.typed)


def begin(terminal: Terminal, disk: Disk) -> Path:
    """The program on a story, with words on its good disk and more typed after it became a bad one."""
    chance = random.Random("trouble")
    file = make_story(disk.folder)
    terminal.start(file, env=disk.environment)
    terminal.wait_for(OPENING.strip())
    terminal.type("Well then. ")
    terminal.wait_for("Well then.")
    disk.fill()
    terminal.type_steadily(words_from(chance, 20), steady(chance, 0.05, 0.15))
    terminal.wait(says_not_saved, "saying that it is not saved", SOON)
    return file


def shows_question(screen: str) -> bool:
    """Whether the key line has given way to a question."""
    return "^q quit" not in foot(screen)


@pytest.mark.parametrize("disk", TROUBLES, indirect=True)
def test_what_was_typed_meanwhile_is_saved_once_when_the_disk_is_well_again(
    terminal: Terminal, disk: Disk
) -> None:
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
    assert not wrong, "\n".join(wrong)


def happened(wrong: list[str], terminal: Terminal, ready: Callable[[str], object], what: str) -> bool:
    """Whether the screen shows something soon; what it shows instead is one more thing that is wrong."""
    try:
        terminal.wait(ready, what, SOON)
    except AssertionError as error:
        wrong.append(str(error))
        return False
    return True


def rescued(terminal: Terminal) -> list[str]:
    """Texts of files below the state folder, without the log."""
    files = [file for file in terminal.state.rglob("*") if file.is_file() and "logs" not in file.parts]
    texts: list[str] = []
    for file in files:
        with contextlib.suppress(UnicodeDecodeError):  # a copy of a story
            texts.append(file.read_bytes().decode())
    return texts


@pytest.mark.parametrize("disk", TROUBLES, indirect=True)
def test_who_leaves_nevertheless_finds_the_words_in_a_rescue_file(terminal: Terminal, disk: Disk) -> None:
    begin(terminal, disk)
    terminal.press(CTRL_Q)
    screen = terminal.wait(shows_question, "a question before leaving", SOON)
    terminal.press(answer(screen, "leave"))
    terminal.ended()
    assert any(typed(terminal).strip() in text for text in rescued(terminal)), rescued(terminal)


@pytest.mark.parametrize("gone", ["moved", "deleted"])
def test_words_typed_while_the_folder_goes_away_are_kept_somewhere(
    terminal: Terminal, tmp_path: Path, gone: str
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    chance = random.Random(gone)
    file = make_story(folder)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    words = words_from(chance, 60)
    terminal.type_steadily(words[:20], steady(chance, 0.05, 0.15))
    if gone == "moved":
        folder.rename(elsewhere)
    else:
        shutil.rmtree(folder)
    terminal.type_steadily(words[20:], steady(chance, 0.05, 0.15))
    terminal.wait_for(words[-12:].strip())
    terminal.press(CTRL_Q)
    try:
        terminal.ended(within=3)
    except AssertionError:  # it asks
        terminal.press(answer(terminal.screen, "leave"))
        terminal.ended()
    stories = [text_of(path) for path in (file, elsewhere / file.name) if path.exists()]
    places = [*stories, *rescued(terminal)]
    assert any(words.strip() in text for text in places), f"{gone}: {places}"
