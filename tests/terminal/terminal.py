"""The program in a pseudo-terminal: keys go in as bytes, the screen is read as a person would see it."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyte
import pyte.modes
from pyte.screens import Char
from wcwidth import wcwidth

import srbwriter
from tests.fakes.short_model import short_model

PATIENCE = 40.0  # seconds for one thing to happen on a busy machine
LOOK = 0.1  # seconds between two looks at what does not tell when it changes
_READ_SECONDS, _READ_LOOK = 5.0, 0.002  # for a key to be read, and between two looks at that
COLUMNS, LINES = 120, 40

# What keys send on xterm.
CTRL_F, CTRL_G, CTRL_N, CTRL_P, CTRL_Q, CTRL_S, CTRL_Z = (bytes([ord(c) - 64]) for c in "FGNPQSZ")
ESC, TAB, ENTER, BACKSPACE = b"\x1b", b"\t", b"\r", b"\x7f"
F3, F7, F11 = b"\x1bOR", b"\x1b[18~", b"\x1b[23~"
LEFT, RIGHT = b"\x1b[D", b"\x1b[C"

# A model that is named needs no hint at how to use another, which would lie over the screen for seconds.
# Short branches, and none ahead of a pick: a test that is about more of them says so.
_CONFIG = """
[model]
path = '{model}'
threads = 1

[generation]
n = 2
max_tokens = {max_tokens}

[instruments]
look_ahead = "{look_ahead}"
"""

# Makes the terminal on descriptor 0 the one whose signals the program gets, and becomes the program.
_TAKE_TERMINAL = (
    "import fcntl,os,sys,termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execvp(sys.argv[1], sys.argv[1:])"
)
# What a shell does for one program: a job of its own, which may stop and is sent on by SIGCONT to the shell,
# which has the terminal in its own modes meanwhile.
# Arguments are the file for the program's number, and the program.
_BE_SHELL = """
import contextlib, fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
modes = termios.tcgetattr(0)
go_on = []
signal.signal(signal.SIGCONT, lambda *_: go_on.append(1))
job = os.fork()
with contextlib.suppress(PermissionError):  # the job has done so itself, and is the program already
    os.setpgid(job, job)
os.tcsetpgrp(0, job or os.getpid())
if not job:
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])
with open(sys.argv[1], "w") as file:
    file.write(str(job))
while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpid())
    termios.tcsetattr(0, termios.TCSADRAIN, modes)
    print("\\033[?2004l[the job has stopped]", flush=True)
    while not go_on:
        signal.pause()
    go_on.clear()
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
os.tcsetpgrp(0, os.getpid())
while os.WIFSIGNALED(status) and not go_on:  # what the job left behind has the terminal until then
    signal.pause()
sys.exit(os.waitstatus_to_exitcode(status) % 256)
"""
# Sequences that pyte would print: the kitty keyboard protocol, and questions with an intermediate character.
_UNKNOWN = re.compile(r"\x1b\[[<>=][0-9;]*[a-zA-Z]|\x1b\[\??[0-9;]*\$[a-z]|\x1b\[[0-9;]*t")
_UNFINISHED = re.compile(r"\x1b(\[[<>=?0-9;$]*)?$")
_NOT_ASCII = re.compile(r"[\u0080-\U0010ffff]")
# A program asks whether a terminal shows what lies between two marks at once; this one does, so a screen is
# never looked at when half of it is drawn.
_ASKS_WHOLE, _SHOWS_WHOLE = b"\x1b[?2026$p", b"\x1b[?2026;2$y"
PASTE_MODE = b"\x1b[?2004h"  # the program has the terminal
LEFT_ALTERNATE_SCREEN = b"\x1b[?1049l"
_WHOLE, _WHOLE_END = "\x1b[?2026h", "\x1b[?2026l"
_WHOLE_SECONDS = 3.0  # until a terminal shows half of it, when the program was stopped in between
# Most of what Textual sends besides words: colours and places of the cursor.
_FREQUENT = re.compile(r"\x1b\[([0-9;]*)([mH])")


class Screen(pyte.Screen):
    """A screen for much text: words of characters that take a column each are drawn in one go."""

    def draw(self, data: str) -> None:
        start = self.cursor.x
        end = start + len(data)
        narrow = data.isascii() or all(wcwidth(char) == 1 for char in data)
        if end > self.columns or pyte.modes.IRM in self.mode or not narrow:
            super().draw(data)
            return
        _, *colours = self.cursor.attrs
        line = self.buffer[self.cursor.y]
        cells = {char: Char(char, *colours) for char in set(data)}
        line.update(enumerate(map(cells.__getitem__, data), start))
        self.cursor.x = end


@dataclass(frozen=True, slots=True)
class Key:
    """A character that was typed, and when it was handed to the terminal (monotonic seconds)."""

    text: str
    at: float


class Terminal:
    """One terminal, for one start of the program after another, with folders of its own below ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.typed: list[Key] = []
        self._program: subprocess.Popen[bytes] | None = None
        self._number: Path | None = None  # the file that has the job's
        self._master = self._enough = -1
        self._news = threading.Condition()
        self._output = bytearray()  # not yet on the screen: drawing it costs more than most waits are worth
        self._ended = False
        self._drawing = threading.Lock()
        self._reader: threading.Thread | None = None
        self.log = bytearray()  # all that the program ever sent
        self._tty = ""
        self.columns, self.lines = COLUMNS, LINES
        self._clear()
        self.config = folder / "config" / "srbwriter" / "config.toml"
        self.config.parent.mkdir(parents=True)
        self.configure()

    def configure(self, look_ahead: str = "off", max_tokens: int = 32, more: str = "") -> None:
        """Write the settings anew; ``more`` are lines behind them."""
        text = _CONFIG.format(model=short_model(), look_ahead=look_ahead, max_tokens=max_tokens)
        self.config.write_text(text + more, "utf-8")

    def _clear(self) -> None:
        self._screen = Screen(self.columns, self.lines)
        self._shown = ""
        self._stream = pyte.Stream(self._screen)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held, self._held_since = "", 0.0

    # ---- the program

    @property
    def environment(self) -> dict[str, str]:
        """Folders of the terminal's own, the library that the test runs with, and nothing that moves."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("SRBWRITER_", "XDG_", "SSH_", "LC_"))
            and name not in ("COLUMNS", "LINES", "NO_COLOR", "VISUAL", "EDITOR", "LD_PRELOAD", "TMUX")
        }
        library = Path(srbwriter.__file__).parent.parent
        paths = [str(library), *filter(None, [kept.get("PYTHONPATH")])]
        return kept | {
            "HOME": str(self.folder),
            **{f"XDG_{n}_HOME": str(self.folder / n.lower()) for n in ("CONFIG", "DATA", "STATE", "CACHE")},
            "PYTHONPATH": os.pathsep.join(paths),
            "TERM": "xterm-256color",
            "LANG": "C.UTF-8",
            "TEXTUAL_ANIMATIONS": "none",
        }

    @property
    def state(self) -> Path:
        """The program's state folder."""
        return self.folder / "state" / "srbwriter"

    def start(
        self, *arguments: str | Path, env: Mapping[str, str] | None = None, job: bool = False,
        alone: bool = False,
    ) -> None:  # fmt: skip
        """Run ``srbwriter ARGUMENTS``; what was typed before is forgotten.

        As a ``job`` it runs below a shell, and can be stopped and sent on. ``alone`` it gets no signal of its
        terminal, as when the shell that it was stopped in has gone.
        """
        self.close()
        self.typed = []
        self._clear()
        master, terminal = os.openpty()
        self._tty = os.ttyname(terminal)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", self.lines, self.columns, 0, 0))
        given = [os.fspath(argument) for argument in arguments]
        self._number = self.folder / "job.pid" if job else None
        how = [_BE_SHELL, str(self._number)] if job else [_TAKE_TERMINAL]
        below = [] if alone else [sys.executable, "-ISc", *how]
        command = [*below, sys.executable, "-m", "srbwriter", *given]
        self._program = subprocess.Popen(
            command, stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
            cwd=self.folder, env=self.environment | dict(env or {}),
        )  # fmt: skip
        os.close(terminal)
        self._master, self._ended = master, False
        enough, self._enough = os.pipe()
        self._reader = threading.Thread(target=self._read, args=(master, enough), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        assert self._program is not None
        return self._program.pid if self._number is None else int(self._number.read_text())

    def kill(self, number: int = signal.SIGKILL) -> float:
        """Send a signal to the program alone; returns when (monotonic seconds)."""
        moment = time.monotonic()
        os.kill(self.pid, number)
        if number == signal.SIGKILL:
            if self._number is not None:
                self.go_on()  # a shell looks after a stopped job when it is told to
            self.ended()
        return moment

    def go_on(self) -> None:
        """Send on a job that has stopped, as ``fg`` does."""
        assert self._program is not None
        self._program.send_signal(signal.SIGCONT)

    def hang_up(self) -> float:
        """Close the window, or lose the connection; returns when (monotonic seconds)."""
        moment = time.monotonic()
        self._stop_reading()
        os.close(self._master)
        self._master = -1
        return moment

    def ended(self, within: float = PATIENCE) -> int:
        """Wait for the program's end; returns its exit code, negative for a signal."""
        assert self._program is not None
        try:
            return self._program.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the program did not end in {within} s:\n{self.screen}") from None

    @property
    def running(self) -> bool:
        return self._program is not None and self._program.poll() is None

    def close(self) -> None:
        """End the program, whatever it does."""
        if self._program is None:
            return
        groups = [self._program.pid] if self._number is None else [self.pid, self._program.pid]
        for group in groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._program.wait()
        self._program = None
        if self._master >= 0:
            self._stop_reading()
            os.close(self._master)
        with self._news:
            self._output.clear()

    def _stop_reading(self) -> None:
        assert self._reader is not None
        os.close(self._enough)
        self._reader.join()

    def _read(self, master: int, enough: int) -> None:
        with os.fdopen(enough, closefd=True):
            while self._read_some(master, enough):
                pass

    def _read_some(self, master: int, enough: int) -> bool:
        ready, _, _ = select.select([master, enough], [], [])
        data = b""
        if enough not in ready:
            with contextlib.suppress(OSError):  # nobody has the other end any more
                data = os.read(master, 65536)
                if _ASKS_WHOLE in data:
                    os.write(master, _SHOWS_WHOLE)
        with self._news:
            self._output += data
            self.log += data
            self._ended = self._ended or not data
            self._news.notify_all()
        return bool(data)

    # ---- the screen

    @property
    def screen(self) -> str:
        """What the screen shows now, line by line."""
        with self._drawing:
            if self._draw() or not self._shown:
                rows = self._screen.buffer
                lines = ("".join(rows[y][x].data for x in range(self.columns)) for y in range(self.lines))
                self._shown = "\n".join(line.rstrip() for line in lines)
            return self._shown

    def underlined(self) -> list[str]:
        """The words on the screen that are underlined, from the top."""
        with self._drawing:
            self._shown = "" if self._draw() else self._shown
            cells = [self._screen.buffer[y][x] for y in range(self.lines) for x in range(self.columns)]
        return "".join(cell.data if cell.underscore else " " for cell in cells).split()

    def _draw(self) -> bool:
        """Draw what has come since; returns whether there was any."""
        with self._news:
            data, self._output = bytes(self._output), bytearray()
        text = _UNKNOWN.sub("", self._held + self._decoder.decode(data))
        unfinished = _UNFINISHED.search(text)
        cut = unfinished.start() if unfinished else len(text)
        whole = text.rfind(_WHOLE)
        now = time.monotonic()
        if _WHOLE not in self._held or _WHOLE_END in text:  # the half is not that of the last look
            self._held_since = now
        if whole >= 0 and _WHOLE_END not in text[whole:] and not self._ended:
            cut = whole if now - self._held_since < _WHOLE_SECONDS else cut
        self._held = text[cut:]
        plain, *others = _FREQUENT.split(_NOT_ASCII.sub(_drawable, text[:cut]))
        self._stream.feed(plain)
        for parameters, command, plain in zip(others[::3], others[1::3], others[2::3], strict=True):
            numbers = [int(number or 0) for number in parameters.split(";")]
            (self._screen.select_graphic_rendition if command == "m" else self._screen.cursor_position)(
                *numbers
            )
            self._stream.feed(plain)
        return cut > 0

    def wait(self, ready: Callable[[str], object], what: str, within: float = PATIENCE) -> str:
        """Look until the screen shows something; fails with the screen otherwise.

        ``ready`` may look at files too: it is asked whenever the screen changes, and now and then.
        """
        end = time.monotonic() + within
        while True:
            screen = self.screen
            if ready(screen):
                return screen
            with self._news:
                left = end - time.monotonic()
                if left > 0 and not self._output and not self._ended:
                    self._news.wait(min(left, LOOK))
                if self._ended and not self._output:
                    raise AssertionError(f"{what}: the program ended before that:\n{screen}")
                if left <= 0:
                    raise AssertionError(f"{what} did not happen in {within} s:\n{screen}")

    def wait_for(self, words: str, within: float = PATIENCE) -> str:
        return self.wait(lambda screen: words in screen, repr(words), within)

    def wait_without(self, words: str, within: float = PATIENCE) -> str:
        return self.wait(lambda screen: words not in screen, f"no more {words!r}", within)

    # ---- keys

    def press(self, *keys: bytes) -> None:
        """Keys that are commands: each arrives in a read of its own, as from fingers."""
        for key in keys:
            self._wait_until_read()
            self._send(key)
        self._wait_until_read()

    def _wait_until_read(self) -> None:
        """Wait until the program has read all that was sent; a while, where it has stopped."""
        end = time.monotonic() + _READ_SECONDS
        with contextlib.suppress(OSError):  # the program has ended, and its terminal with it
            terminal = os.open(self._tty, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK)
            try:
                while time.monotonic() < end and self.running and _waiting(terminal):
                    time.sleep(_READ_LOOK)
            finally:
                os.close(terminal)

    def type(self, text: str) -> None:
        """Characters with no pause between them."""
        for character in text:
            self._key(character)

    def type_steadily(self, text: str, pauses: Iterable[float], until: float = float("inf")) -> None:
        """A character after each of ``pauses`` (seconds), on time also where one of them came late.

        Ends with the text, with the pauses, or at ``until`` (monotonic seconds), whichever is first.
        """
        due = time.monotonic()
        for character, pause in zip(text, pauses, strict=False):
            due += pause
            _sleep_until(min(due, until))
            if due > until:
                return
            self._key(character)

    def rest(self, seconds: float) -> None:
        """No key for a while, as a part of the rhythm."""
        _sleep_until(time.monotonic() + seconds)

    def _key(self, character: str) -> None:
        self.typed.append(Key(character, time.monotonic()))
        self._send(b"\r" if character == "\n" else character.encode())

    def paste(self, text: str) -> None:
        """As terminals do where a program has asked for bracketed paste."""
        self.typed.append(Key(text, time.monotonic()))
        self._send(b"\x1b[200~" + text.replace("\n", "\r").encode() + b"\x1b[201~")

    def _send(self, data: bytes) -> None:
        while data:  # a long paste does not fit into the terminal's queue at once
            select.select([], [self._master], [], PATIENCE)
            data = data[os.write(self._master, data[:1024]) :]


def _drawable(found: re.Match[str]) -> str:
    """A character that pyte can draw: one without a width that does not combine would end the line for it."""
    character = found[0]
    invisible = unicodedata.category(character) in ("Cf", "Mn", "Me") and not unicodedata.combining(character)
    return "" if invisible else character


def _waiting(terminal: int) -> bool:
    """Whether something was sent that nobody has read yet; FIONREAD knows nothing of what is on its way."""
    return bool(select.select([terminal], [], [], 0)[0])


def _sleep_until(moment: float) -> None:
    while (left := moment - time.monotonic()) > 0:
        time.sleep(left)
