"""What the program makes for itself is its owner's alone, whatever the umask; exports follow the umask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.story.journal import lock_of
from tests.terminal.support import ended, make_story, says_saved
from tests.terminal.terminal import CTRL_N, CTRL_Q, ESC, Terminal


@pytest.fixture
def open_umask() -> Iterator[None]:
    """Nothing is taken from the modes that programs ask for."""
    before = os.umask(0)
    yield
    os.umask(before)


def wide(folder: Path) -> dict[str, str]:
    """What below ``folder`` somebody else could enter or read, with its mode."""
    paths = [path for path in (folder, *folder.rglob("*")) if not path.is_symlink()]
    modes = {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in paths if path.exists()}
    return {name: f"{mode:o}" for name, mode in modes.items() if mode & 0o077}


@pytest.mark.usefixtures("open_umask")
def test_no_file_or_folder_of_the_program_is_open_to_others(terminal: Terminal) -> None:
    places = [terminal.folder / name for name in ("data", "state", "cache")]
    terminal.start()
    terminal.wait_for("empty page")
    terminal.press(ESC)
    terminal.wait(says_saved, "the first screen")
    terminal.type("It rained.")
    terminal.press(CTRL_N)
    terminal.wait(ended, "branches that have ended")
    [story] = (terminal.folder / "data").rglob("*.srbw")
    assert lock_of(story).exists() and list((terminal.folder / "state").rglob("changes/*"))
    assert not any(wide(place) for place in places if place.exists())
    terminal.press(CTRL_Q)
    assert terminal.ended() == 0
    assert not any(wide(place) for place in places if place.exists())
    exported = terminal.folder / "tale.md"
    command = [sys.executable, "-m", "srbwriter", "export", str(story), "-o", str(exported)]
    subprocess.run(command, env=terminal.environment, check=True, capture_output=True)
    assert exported.stat().st_mode & 0o777 == 0o666


def test_a_story_elsewhere_keeps_its_mode(terminal: Terminal) -> None:
    story = make_story(terminal.folder / "mine")
    story.chmod(0o664)
    story.parent.chmod(0o755)
    terminal.start(story)
    terminal.wait(says_saved, "the first screen")
    assert story.stat().st_mode & 0o777 == 0o664 and story.parent.stat().st_mode & 0o777 == 0o755
