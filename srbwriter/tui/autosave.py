"""Telling the story what the writer types, without the writer waiting for it.

In a long book a change takes the story a moment; while he types on, that happens beside the screen. Knows a
function that takes the text; knows no session and no screen.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

TYPING_SECONDS = 0.4  # this long after the oldest key that waits the words are handed on


class Autosave:
    """Hands texts on, the newest last; an older one never follows a newer one."""

    def __init__(self, save: Callable[[str], object]) -> None:
        self._save = save
        self._lock = threading.Lock()
        self._newest = 0

    def now(self, text: str) -> None:
        """Hand ``text`` on and wait until that is done. Raises what saving raises."""
        self._newest += 1
        with self._lock:
            self._save(text)

    def settle(self) -> None:
        """Wait for what is under way, and let nothing older begin."""
        self._newest += 1
        with self._lock:
            pass

    def later(self, text: str) -> None:
        """Hand ``text`` on beside the caller, unless something newer comes first."""
        self._newest += 1
        turn = self._newest
        threading.Thread(target=self._in_turn, args=(turn, text), name="autosave").start()

    def _in_turn(self, turn: int, text: str) -> None:
        with self._lock:
            if turn != self._newest:
                return
            try:
                self._save(text)
            except Exception:  # the story says itself that it is not saved
                log.exception("typed words could not be kept; they will be tried again")
