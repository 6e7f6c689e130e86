"""What the program tells the writer, for as long as it takes to read.

The screen on top shows it in room of its own: a message covers no text and no key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

_LEAST_SECONDS, _CHARACTERS_A_SECOND = 5.0, 15
_MOST = 3  # shown at a time; the newest
_TOGETHER_SECONDS = 1.5  # between messages of one moment; a later one takes the place of those before


class Message(NamedTuple):
    """``error`` is of what could not be done; ``until`` may be cut short when it does not hold any more."""

    words: str
    error: bool
    at: float  # seconds of the clock, as the next
    until: float


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
        seconds, now = max(_LEAST_SECONDS, len(words) / _CHARACTERS_A_SECOND), self._clock()
        self.take_back(words)  # said again, it is shown once
        self.all.append(Message(words, error, now, now + seconds))
        return seconds

    def take_back(self, words: str) -> None:
        """What was said does not hold any more: it is not shown any longer."""
        now = self._clock()
        self.all = [
            message._replace(until=now) if message.words == words and message.until > now else message
            for message in self.all
        ]

    @property
    def current(self) -> list[Message]:
        """Those to be read now, the oldest first."""
        last = self.all[-_MOST:]
        since = last[-1].at - _TOGETHER_SECONDS if last else 0.0
        return [message for message in last if message.at >= since and message.until > self._clock()]
