"""How fast a download is and how long it will still take; for the command line and the app alike."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from srbwriter.models.fit import size_words

WINDOW = 10.0
"""Seconds over which the speed is measured."""

_LEAST = 0.5  # seconds of samples before a speed is named


class Transfer(NamedTuple):
    """A moment of a download; ``total`` 0 is unknown, and so is a ``speed`` (bytes a second) of None."""

    done: int
    total: int
    speed: float | None = None

    @property
    def seconds_left(self) -> float | None:
        """Return the seconds that the rest takes at this speed; None if unknown."""
        return max(0, self.total - self.done) / self.speed if self.total and self.speed else None

    def __str__(self) -> str:
        """For example ``1.2 GB of 4.7 GB · 12 MB/s · 5 min left``."""
        words = [size_words(self.done) + (f" of {size_words(self.total)}" if self.total else "")]
        if self.speed is not None:
            words.append(f"{size_words(self.speed)}/s")
        if self.done < self.total and (seconds := self.seconds_left) is not None:
            words.append(f"{time_words(seconds)} left")
        return " · ".join(words)


class TransferMeter:
    """Measures the speed of one download over its last seconds. The caller passes the times."""

    def __init__(self) -> None:
        self._samples = deque[tuple[float, int]]()

    def record(self, done: int, total: int, now: float) -> Transfer:
        """Note that ``done`` bytes are here at ``now`` (seconds of any steady clock); return the moment."""
        samples = self._samples
        if samples and done < samples[-1][1]:  # it began again
            samples.clear()
        samples.append((now, done))
        while len(samples) > 2 and now - samples[1][0] >= WINDOW:
            samples.popleft()
        start, before = samples[0]
        passed = now - start
        return Transfer(done, total, (done - before) / passed if passed >= _LEAST else None)


def time_words(seconds: float) -> str:
    """Return a length of time in words, for example ``40 s``, ``5 min`` or ``2 h 10 min``."""
    minutes = round(seconds / 60)
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    hours = f"{minutes // 60} h" if minutes >= 60 else ""
    return " ".join(filter(None, [hours, f"{minutes % 60} min" if minutes % 60 else ""]))
