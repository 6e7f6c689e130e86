"""The real program in a real terminal: however it is ended, the terminal is as it was before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from srbwriter.story import Story

ROOT_FOLDER = Path(__file__).parent.parent.parent
PATIENCE = 60.0  # seconds for one thing to happen on a busy machine

pytestmark = pytest.mark.needs("tmux")


class Terminal:
    """A terminal of its own in tmux."""

    def __init__(self, folder: Path, width: int = 150, height: int = 40) -> None:
        self._socket = ""
        self._folder = folder
        self._size = width, height

    def tmux(self, *arguments: str) -> str:
        command = ["tmux", "-f", "/dev/null", "-L", self._socket, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    def start(self, *arguments: str) -> None:
        """Run the program, and a shell line behind it that shows how it ended."""
        self._socket = f"srbwriter-{uuid.uuid4().hex[:8]}"  # a server of its own each time
        homes = [f"XDG_{n}_HOME={self._folder / n.lower()}" for n in ("CONFIG", "DATA", "STATE", "CACHE")]
        program = " ".join([sys.executable, "-m", "srbwriter", *arguments])
        homes = ["env", "-u", "COLUMNS", "-u", "LINES", *homes, f"PYTHONPATH={ROOT_FOLDER}"]
        # After an abort the terminal is restored by the program's watcher, a moment after the shell knows.
        line = f"{' '.join(homes)} {program}; code=$?; sleep 1; echo ended with $code; cat"
        width, height = map(str, self._size)
        self.tmux("new-session", "-d", "-s", "main", "-x", width, "-y", height, f"sh -c '{line}'")

    def keys(self, *keys: str) -> None:
        for key in keys:
            self.tmux("send-keys", "-t", "main", key)

    @property
    def screen(self) -> str:
        return self.tmux("capture-pane", "-p", "-t", "main")

    def wait(self, ready: Callable[[str], bool], what: str) -> str:
        """Look until the screen shows something; fails with the screen otherwise."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            screen = self.screen
            if ready(screen):
                return screen
            time.sleep(0.05)  # the only way to watch a terminal
        raise AssertionError(f"{what} did not happen:\n{self.screen}")

    def wait_for(self, words: str) -> str:
        return self.wait(lambda screen: words in screen, words)

    def program(self) -> int:
        """The process of the program itself."""
        shell = int(self.tmux("display-message", "-p", "-t", "main", "#{pane_pid}"))
        return psutil.Process(shell).children()[0].pid

    def close(self) -> None:
        subprocess.run(["tmux", "-L", self._socket, "kill-server"], capture_output=True, check=False)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def text_of(path: Path) -> str:
    with Story.open(path, readonly=True) as story:
        return story.text(story.current)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.full
def test_words_are_kept_and_the_terminal_restored_when_the_system_ends_it(
    terminal: Terminal, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "tale.srbw"
    terminal.start(str(file))
    terminal.wait_for("Choose an opening")
    terminal.keys("Escape")
    terminal.wait(lambda screen: "Choose an opening" not in screen, "the empty page")
    terminal.keys("A", "n", "d")
    terminal.wait_for("And")
    os.kill(terminal.program(), number)
    screen = terminal.wait_for(f"ended with {128 + number}")
    assert "\x1b" not in screen and "Traceback" not in screen
    assert text_of(file) == "And"


def test_the_terminal_is_restored_after_a_native_abort(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(str(tmp_path / "tale.srbw"))
    terminal.wait_for("Choose an opening")
    os.kill(terminal.program(), signal.SIGABRT)
    terminal.wait_for("ended with 134")
    assert terminal.tmux("display-message", "-p", "-t", "main", "#{alternate_on}").strip() == "0"
    assert terminal.tmux("display-message", "-p", "-t", "main", "#{mouse_any_flag}").strip() == "0"
    terminal.keys("echoed", "Enter")
    terminal.wait(lambda screen: screen.count("echoed") >= 2, "typing in a sane terminal")
