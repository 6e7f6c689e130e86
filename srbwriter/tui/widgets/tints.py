"""Colours of words by probability of their tokens, or by author.

Four steps, distinct in every theme and colour depth, also by font style where a terminal has no colours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from srbwriter.engine.generation import Branch, Buffer

NONE, AUTHOR, SURPRISAL = "none", "author", "surprisal"
STEPS = ("tint-0", "tint-1", "tint-2", "tint-3")
UNKNOWN = "unknown"

_MOST = (6.0, 9.0, 12.0)  # highest surprisal of the first three steps, in bits

LEGENDS = {
    SURPRISAL: ("Unlikely words", (
        ("above 1.6 %", STEPS[0]), ("below 1.6 %", STEPS[1]), ("0.2 %", STEPS[2]), ("0.02 %", STEPS[3]),
        ("not known yet", UNKNOWN),
    )),
    AUTHOR: ("Who wrote what", (
        ("yours", STEPS[0]), ("the model", "model"), ("edited by you", "edited"),
        ("imported", UNKNOWN),
    )),
}  # fmt: skip
"""The heading and the legend of each mode: (words, tint)."""


def step(logprob: float | None) -> str:
    """Return the tint of a token by its natural log-probability; UNKNOWN for None."""
    if logprob is None:
        return UNKNOWN
    return STEPS[bisect_right(_MOST, -logprob / math.log(2))]


class Tints:
    """The tints of one branch's text, extended as it grows.

    ``known`` returns the log-probabilities; ``version`` returns a number that increases when more of them are
    known.
    """

    def __init__(self, known: Callable[[Branch], Sequence[float | None]], version: Callable[[], int]) -> None:
        self._known, self._version = known, version
        self._names: list[str] = []
        self._of: tuple[Buffer, bool, int] | None = None

    def stale(self, branch: Branch) -> bool:
        """Return whether painted text may have other tints now."""
        now = branch.buffer, branch.live, self._version()
        before = self._of
        if before is not None and before[0] is now[0] and before[1:] == now[1:]:
            return False
        self._of, self._names = now, []
        return before is not None

    def between(self, branch: Branch, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, tint) of each span between ``start`` and ``end``."""
        buffer = branch.buffer
        ends = buffer.ends
        if len(self._names) < len(ends):
            self._names += [step(value) for value in self._known(branch)[len(self._names) :]]
        at = bisect_right(ends, start)
        while start < end and at < min(len(ends), len(self._names)):
            if ends[at] > start:
                yield start, min(end, ends[at]), self._names[at]
                start = ends[at]
            at += 1
