"""Letters that are typed on a chosen branch: commands, or prose for the story.

A character that is no command is prose, and so is the third of different ones within half a second: nobody
means three commands so fast. What the ones before did is taken back, and all of them enter the story. So
commands that cannot be taken back wait until a moment has passed without another letter. A run of one letter,
such as a held key, is always commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from textual import events
from textual.timer import Timer

from srbwriter.tui.driver import is_text

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

_WINDOW, _WAIT = 0.5, 0.25  # seconds: of three letters that are prose, and before what cannot be taken back
_LASTING = ("reroll", "kill", "stop", "pause", "extend")
_SAID = "You typed while a branch was chosen: your words went into the story."


class _Letter(NamedTuple):
    letter: str
    at: float
    take_back: Callable[[], object]


class Letters:
    """The last letters that were typed on a chosen branch."""

    def __init__(self, screen: WriteScreen) -> None:
        self._screen = screen
        self._typed: list[_Letter] = []
        self._waiting: list[str] = []  # commands
        self._timer: Timer | None = None

    def take(self, event: events.Key) -> bool:
        """Run a letter as a command or write it into the story; return False for any other key."""
        letter, screen = event.character or "", self._screen
        if not is_text(event) or letter.isdecimal():
            self.rest()
            return False
        now = time.monotonic()
        self._typed = [one for one in self._typed if now - one.at <= _WINDOW]
        command, _, number = screen.app.known_keys.on_branch.get(event.key, "").partition(".")
        if not command or len({letter, *(one.letter for one in self._typed)}) > 2:
            self._write(letter)
            return True
        pane = screen.grid.pane
        take = pane.take if pane is not None else None
        if command in _LASTING or self._waiting:
            self._waiting.append(command)
            if self._timer is not None:
                self._timer.stop()
            self._timer = screen.set_timer(_WAIT, self._run_waiting)
            self._typed.append(_Letter(letter, now, self._waiting.clear))
        else:
            screen.run(command, int(number or 0))
            switches = command == "bookmark"  # run again, it does the opposite
            back = (lambda: screen.run(command)) if switches else (lambda: pane and pane.take_to(take or 0))
            self._typed.append(_Letter(letter, now, back))
        return True

    def rest(self) -> None:
        """Run what waits: the writer does something else, or nothing for a while."""
        self._run_waiting()
        self._typed.clear()

    def _run_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        for command in waiting:
            if self._screen.on_branch:
                self._screen.run(command)

    def _write(self, letter: str) -> None:
        before = [*self._typed]
        if len(before) > 1 and len({one.letter for one in before}) == 1:
            before = []  # a held key
        for one in reversed(before):
            one.take_back()
        self.rest()
        screen = self._screen
        screen.go_to_story()
        if screen.editor.read_only:
            screen.editor.refuse()
        else:
            screen.editor.type_words("".join(one.letter for one in before) + letter)
            screen.notify(_SAID)
