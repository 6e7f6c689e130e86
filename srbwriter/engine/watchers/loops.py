"""Text that repeats itself: how a loop is noticed as the text grows.

A loop is a passage that follows itself several times without a word between. It is found in characters, not
in tokens, so it does not matter how the passage is tokenised; small and capital letters are alike, and any
run of whitespace is one space. The search keeps the last place of each run of :data:`RUN` characters: while
the text goes on as it did after that place, the distance between the two is the period of a possible loop.
Each character is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from .. import limits
from ..types import Sampling
from .base import Continue, Rewind, Watcher

RUN = 16
"""Characters whose last place is remembered: fewer occur again inside a sentence without a loop."""

LEAST_CHARS = 60
"""Characters of all repetitions together, from which on they are a loop: *no, no, no!* is none."""

MOST_CHARS = 600
"""Longest passage whose repetition is noticed, in characters: a paragraph."""

_KEPT = limits.LOOP_TIMES * MOST_CHARS  # characters of the text that are remembered


class Loop(NamedTuple):
    """A loop at the end of a text.

    Attributes:
        start: where the first repetition begins, in characters of the text.
        period: characters of the repeated passage.
        times: how often the passage stands there in a row, the first time included.
    """

    start: int
    period: int
    times: int


class LoopSearch:
    """Search a text for a loop at its end, piece by piece. ``position`` is where the text begins."""

    __slots__ = ("_begin", "_folded", "_last", "_matched", "_period", "_places", "position")

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self._folded = ""  # what is compared
        self._places: list[int] = []  # of its characters, in the text
        self._last: dict[str, int] = {}  # a run of characters, and where it ended last
        self._period = self._matched = 0  # the text equals what was a period before, for so many characters
        self._begin = 0  # characters that were dropped from the front

    def read(self, text: str) -> None:
        """Read ``text``, which follows what was read before."""
        for char in text:
            self._add(char)
            self.position += 1
        if len(self._folded) > 2 * _KEPT:
            self._drop(len(self._folded) - _KEPT)

    def _add(self, char: str) -> None:
        small = " " if char.isspace() else char.lower()
        if small == " " and self._folded.endswith(" "):
            return
        self._folded += small
        self._places.append(self.position)
        end = self._begin + len(self._folded)
        if self._period and self._folded[-1] == self._at(end - 1 - self._period):
            self._matched += 1
        else:
            self._period = self._matched = 0
        run = self._folded[-RUN:]
        if len(run) < RUN:
            return
        before = self._last.get(run, -1)
        self._last[run] = end
        if not self._period and before >= 0 and end - before <= MOST_CHARS:
            self._period, self._matched = end - before, RUN

    def _at(self, place: int) -> str:
        place -= self._begin
        return self._folded[place] if 0 <= place < len(self._folded) else ""

    def _drop(self, chars: int) -> None:
        self._folded, self._places = self._folded[chars:], self._places[chars:]
        self._begin += chars
        self._last = {run: end for run, end in self._last.items() if end - RUN >= self._begin}

    @property
    def found(self) -> Loop | None:
        """The loop at the end, if the passage stands there at least twice and the whole is long enough."""
        if not self._period or self._matched < self._period or self._matched + self._period < LEAST_CHARS:
            return None
        start = self._places[max(len(self._folded) - self._matched, 0)]
        return Loop(start, self._period, 1 + self._matched // self._period)

    @property
    def open_from(self) -> int:
        """Where the earliest repetition begins of which a loop may still be made: a place in the text."""
        open_chars = min(max(self._matched, RUN - 1), len(self._places))
        return self._places[-open_chars] if open_chars else self.position

    def passage(self, period: int) -> str:
        """Return the repeated passage as it is compared."""
        return self._folded[-period:]


def find_loop(text: str, times: int) -> Loop | None:
    """Return the loop at the end of ``text``, if its passage stands there at least ``times`` times."""
    search = LoopSearch()
    search.read(text)
    found = search.found
    return found if found is not None and found.times >= times else None


class LoopWatcher(Watcher):
    """Takes a branch back to where its text began to repeat itself; a repetition is held back until it ends.

    A copy is made before every token, and hardly ever used: it keeps the end of the text alone, and searches
    that once more where a branch does go back to it.

    Args:
        times: how often a passage has to stand there in a row.
        prompt_end: the end of the text before the branch, in which the first passage may stand.
    """

    rewinds: ClassVar[bool] = True

    def __init__(self, times: int, prompt_end: str = "") -> None:
        self._times, self._prompt_end = times, prompt_end
        self._begin(prompt_end, 0)

    def _begin(self, before: str, position: int) -> None:
        """Start behind ``before``, which ends at ``position``."""
        self._tail, self._position = before[-_KEPT:], position
        self._search: LoopSearch | None = None

    def _read(self, text: str) -> LoopSearch:
        if self._search is None:
            self._search = LoopSearch(self._position - len(self._tail))
            self._search.read(self._tail)
        self._search.read(text)
        self._tail, self._position = (self._tail + text)[-_KEPT:], self._position + len(text)
        return self._search

    def accept(self, text: str, end: int, tokens: int) -> Continue | Rewind:
        search = self._read(text)
        loop = search.found
        if loop is None or loop.times < self._times:
            return Continue(end - search.open_from)
        self._begin("", end)  # if the branch keeps the loop, it is not found again at every token
        return Rewind(max(loop.start, 0), end, search.passage(loop.period), nearest=False)

    def skip(self, text: str, end: int) -> None:
        self._read(text)

    def restart(self, text: str, position: int, pending: int) -> None:
        before = self._prompt_end + text
        if pending and not text:  # the model repeats the end of the prompt
            before = before[:-pending]
        self._begin(before, position)

    def copy(self) -> LoopWatcher:
        other = LoopWatcher(self._times)
        other._prompt_end, other._tail, other._position = self._prompt_end, self._tail, self._position
        return other


def watch_loops(sampling: Sampling, text_before: Callable[[int], str]) -> LoopWatcher | None:
    """Return a watcher for loops, if ``sampling`` guards against them."""
    return LoopWatcher(sampling.loop_guard, text_before(_KEPT)) if sampling.loop_guard else None
