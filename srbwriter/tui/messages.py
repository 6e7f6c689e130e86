"""Messages to the writer, each shown as long as it takes to read, and no longer than it is true.

The top screen shows them in an area of its own, so a message covers no text and no key.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

_LEAST_SECONDS, _CHARACTERS_A_SECOND = 5.0, 15
_MOST = 3  # shown at a time; the newest
_TOGETHER_SECONDS = 1.5  # messages within this time are shown together; a later one replaces them


class Message(NamedTuple):
    """A message. ``error`` marks a failure.

    ``about`` returns the state of the message's subject, which was ``subject`` when the message was added.
    """

    words: str
    error: bool
    at: float  # clock time in seconds, like ``until``
    until: float
    about: Callable[[], object] | None = None
    subject: object = None

    def holds(self, now: float) -> bool:
        """Return whether the message is still to be shown: it is new, and its subject has not changed."""
        return self.until > now and (self.about is None or self.about() == self.subject)


@runtime_checkable
class Shows(Protocol):
    """A screen that can show messages."""

    def show_messages(self, messages: list[Message]) -> None: ...


class Messages:
    """All messages of this run in ``all``, and the ones to show now in ``current``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self.all: list[Message] = []

    def add(self, words: str, error: bool, about: Callable[[], object] | None = None) -> float:
        """Add a message; return for how many seconds it is shown.

        With ``about``, it is shown only while that returns what it returns now.
        """
        seconds, now = max(_LEAST_SECONDS, len(words) / _CHARACTERS_A_SECOND), self._clock()
        self.all = [
            message._replace(until=min(message.until, now)) if message.words == words else message
            for message in self.all  # a repeated message is shown once
        ]
        subject = about() if about is not None else None
        self.all.append(Message(words, error, now, now + seconds, about, subject))
        return seconds

    @property
    def current(self) -> list[Message]:
        """The messages to show now, oldest first."""
        last = self.all[-_MOST:]
        since = last[-1].at - _TOGETHER_SECONDS if last else 0.0
        now = self._clock()
        return [message for message in last if message.at >= since and message.holds(now)]
