"""What the program tells the writer, for as long as it takes to read.

The screen on top shows it in room of its own: a message covers no text and no key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

_LEAST_SECONDS, _CHARACTERS_A_SECOND = 5.0, 15
_MOST = 3  # shown at a time; the newest


class Message(NamedTuple):
    """``error`` is of what could not be done."""

    words: str
    error: bool
    until: float  # seconds of the clock


@runtime_checkable
class Shows(Protocol):
    """A screen that has room for messages."""

    def show_messages(self, messages: list[Message]) -> None: ...


class Messages:
    """All messages of this run in ``all``, and those that are still to be read."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.all: list[Message] = []

    def add(self, words: str, error: bool) -> float:
        """Say something; returns for how many seconds it is shown."""
        seconds = max(_LEAST_SECONDS, len(words) / _CHARACTERS_A_SECOND)
        self.all.append(Message(words, error, self._clock() + seconds))
        return seconds

    @property
    def current(self) -> list[Message]:
        """Those to be read now, the oldest first."""
        return [message for message in self.all[-_MOST:] if message.until > self._clock()]
