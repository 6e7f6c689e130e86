"""The time of day jumps while the program runs: no word is lost, and undo keeps its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.disk import MoodyDisk, build
from tests.terminal.conftest import NewTerminal
from tests.terminal.support import OPENING, make_story, says_saved, text_of
from tests.terminal.terminal import CTRL_Q, CTRL_Z

DAY = 24 * 3600
SENTENCES = {400 * DAY: "Spring came. ", -800 * DAY: "Then winter. ", 0: "Then now. "}
"""What is typed after the clock was set to so many seconds from the true time."""


@pytest.mark.slow
def test_a_clock_that_jumps_costs_no_word(new_terminal: NewTerminal, tmp_path: Path) -> None:
    terminal = new_terminal("clock")
    disk = MoodyDisk(terminal.folder / "disk", build(tmp_path))
    file = make_story(disk.folder)
    terminal.start(file, env=disk.environment)
    terminal.wait_for(OPENING.strip())
    whole = OPENING
    for shift, sentence in SENTENCES.items():
        disk.shift_clock(shift)
        terminal.type(sentence)
        whole += sentence
        terminal.wait(lambda s, all=whole: says_saved(s) and text_of(file) == all, "saved words")

    disk.shift_clock(-100 * DAY)
    terminal.press(CTRL_Z)
    terminal.wait(lambda screen: "Then now." not in screen, "the last sentence taken back")
    terminal.press(CTRL_Q)
    terminal.ended()
    assert text_of(file) == whole.removesuffix("Then now. ")
