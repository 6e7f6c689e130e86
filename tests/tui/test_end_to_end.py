"""The real program with the bundled model in a real terminal, from the first key to reopening the story."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from srbwriter.story import ROOT, NodeId, Story

ROOT_FOLDER = Path(__file__).parent.parent.parent
OPENING = "Once upon a time there was a girl who lived by a deep, dark wood."
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


def written(path: Path) -> dict[NodeId, tuple[NodeId | None, str]]:
    """Every living node with its parent and text."""
    with Story.open(path, readonly=True) as story:
        nodes = story.nodes(list(story.reading_order()))
        return {node.id: (node.parent, node.text) for node in nodes}


def text_of(path: Path) -> str:
    with Story.open(path, readonly=True) as story:
        return story.text(story.current)


def panes(screen: str) -> int:
    """How many branches have some words: one or two tokens may be no more than the end of the prompt's."""
    return len(re.findall(r"\b(?:[4-9]|\d\d+) tok\b", screen))


@pytest.mark.full
def test_a_story_from_the_first_key_to_reopening(terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "tale.srbw"
    with Story.create(file) as story:
        story.append(OPENING)
        start = story.current
    terminal.start(str(file), "--n", "8", "--max-tokens", "150")
    terminal.wait_for("by a deep, dark wood")
    terminal.wait_for("storyteller")

    terminal.keys("C-n", "Tab")
    terminal.wait(lambda screen: panes(screen) >= 8, "eight branches")
    terminal.keys("r")  # the first one, while the rest run
    terminal.keys("Right", "k")
    terminal.wait_for("killed")
    terminal.wait(lambda screen: "writing" not in screen, "the end of all branches")
    terminal.keys("Right", "d", "Enter")  # a sentence of the third
    terminal.wait(lambda screen: panes(screen) >= 8 and "killed" not in screen, "the next eight branches")
    picked = text_of(file)
    assert picked.startswith(OPENING) and len(picked) > len(OPENING)

    terminal.keys("Escape")
    terminal.keys("C-z")
    terminal.wait(lambda _: text_of(file) == OPENING, "undo")
    terminal.keys("C-y")
    terminal.wait(lambda _: text_of(file) == picked, "redo")

    terminal.keys("F3")
    terminal.wait_for("go and write")
    terminal.keys("Left")  # to where the pick was made
    terminal.wait_for(f"node {start} ")
    terminal.keys("g")  # and write there
    terminal.wait(lambda _: text_of(file) == OPENING, "going back")
    terminal.wait(lambda screen: panes(screen) >= 8 and "writing" not in screen, "branches at the older node")
    terminal.keys("C-q")
    terminal.wait_for("ended with 0")

    before = written(file)
    children = [text for parent, text in before.values() if parent == start]
    # The first round, the take that was rolled again, and the round after going back.
    assert len(children) >= 8 + 1 + 8
    assert any(picked == OPENING + text for text in children)

    terminal.close()
    terminal.start(str(file), "--n", "8")
    terminal.wait_for("by a deep, dark wood")
    terminal.keys("C-q")
    terminal.wait_for("ended with 0")
    assert written(file) == before
    assert ROOT in before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.full
def test_words_are_kept_and_the_terminal_restored_when_the_system_ends_it(
    terminal: Terminal, tmp_path: Path, number: signal.Signals
) -> None:
    file = tmp_path / "tale.srbw"
    terminal.start(str(file))
    terminal.wait_for("How shall it begin?")
    terminal.keys("Escape")
    terminal.wait(lambda screen: "How shall" not in screen, "the empty page")
    terminal.keys("A", "n", "d")
    terminal.wait_for("And")
    os.kill(terminal.program(), number)
    screen = terminal.wait_for(f"ended with {128 + number}")
    assert "\x1b" not in screen and "Traceback" not in screen
    assert text_of(file) == "And"


def test_the_terminal_is_restored_after_a_native_abort(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(str(tmp_path / "tale.srbw"))
    terminal.wait_for("How shall it begin?")
    os.kill(terminal.program(), signal.SIGABRT)
    terminal.wait_for("ended with 134")
    assert terminal.tmux("display-message", "-p", "-t", "main", "#{alternate_on}").strip() == "0"
    assert terminal.tmux("display-message", "-p", "-t", "main", "#{mouse_any_flag}").strip() == "0"
    terminal.keys("echoed", "Enter")
    terminal.wait(lambda screen: screen.count("echoed") >= 2, "typing in a sane terminal")


@pytest.mark.full
def test_a_missing_model_is_explained_on_a_screen(terminal: Terminal, tmp_path: Path) -> None:
    terminal.start(str(tmp_path / "tale.srbw"), "--model", str(tmp_path / "none.gguf"))
    screen = terminal.wait_for("The model cannot be loaded")
    assert "none.gguf" in screen.replace("\n", "")
    terminal.keys("Escape")
    terminal.wait(lambda screen: "cannot be loaded" not in screen, "going on without a model")
