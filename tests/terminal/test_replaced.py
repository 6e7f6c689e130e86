"""Another program replaces the file of the open story: both versions stay, and a line says so."""

from __future__ import annotations

import shutil
from pathlib import Path

from srbwriter.story import Story
from tests.terminal.support import OPENING, make_story, says_saved, text_of
from tests.terminal.terminal import CTRL_Q, Terminal

THEIRS = "Words of another machine. "


def test_a_story_that_is_replaced_under_the_writer_goes_on_in_a_second_file(terminal: Terminal) -> None:
    file = make_story(terminal.folder / "folder")
    other = Path(shutil.copy(file, terminal.folder / "other.srbw"))
    with Story.open(other) as story:
        story.append(THEIRS)
    terminal.start(file)
    terminal.wait_for(OPENING.strip())
    file.write_bytes(other.read_bytes())  # as cp does
    terminal.type("Mine. ")
    terminal.wait_for(f"Another program changed {file.name}")
    terminal.wait(lambda screen: says_saved(screen) and "Mine." in screen, "the words are saved")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0 and b"srbwriter: Another program changed tale" in terminal.log
    assert file.read_bytes() == other.read_bytes()
    second = file.with_name(f"{file.stem}-your-version.srbw")
    assert (text_of(file), text_of(second)) == (f"{OPENING}{THEIRS}", f"{OPENING}Mine. ")
    assert {path.name for path in file.parent.iterdir()} == {file.name, second.name}


def test_a_second_window_follows_and_takes_over(terminal: Terminal) -> None:
    file = make_story(terminal.folder)
    with Story.open(file) as first:
        terminal.start(file)
        terminal.wait_for("is open in another window")
        first.append("It poured.")
        terminal.wait_for("It poured.")
    terminal.wait_for("You can write here now")
    terminal.type("It hailed.")
    terminal.wait(says_saved, "the words are saved")
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0 and text_of(file) == f"{OPENING}It poured.It hailed."
