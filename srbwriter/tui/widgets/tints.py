"""Colours of words by probability of their tokens, or by author.

Five steps, distinct in every theme and colour depth, also by font style where a terminal has no colours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from srbwriter.engine.generation import Branch, Buffer

NONE, AUTHOR, PROBABILITY, SURPRISAL = "none", "author", "probability", "surprisal"
STEPS = ("tint-0", "tint-1", "tint-2", "tint-3", "tint-4")
UNKNOWN = "tint-unknown"
WRITER = "tint-writer"
TINTS = (*STEPS, UNKNOWN, WRITER)

_LEAST = (0.5, 0.2, 0.05, 0.01)  # lowest probabilities of the first four steps
_MOST = (3.0, 6.0, 9.0, 12.0)  # highest surprisal of the first four steps, in bits

LEGENDS = {
    PROBABILITY: ("How likely each word was", (
        ("50 % and more", STEPS[0]), ("20 %", STEPS[1]), ("5 %", STEPS[2]), ("1 %", STEPS[3]),
        ("less", STEPS[4]), ("not known yet", UNKNOWN),
    )),
    SURPRISAL: ("Unlikely words only", (
        ("above 12 %", STEPS[0]), ("below 12 %", STEPS[1]), ("1.6 %", STEPS[2]), ("0.2 %", STEPS[3]),
        ("0.02 %", STEPS[4]), ("not known yet", UNKNOWN),
    )),
    AUTHOR: ("Who wrote what", (
        ("yours", STEPS[0]), ("the model", "story-model"), ("edited by you", "story-edited"),
        ("imported", UNKNOWN), ("yours in a branch", WRITER),
    )),
}  # fmt: skip
"""The heading and the legend of each mode: (words, tint)."""


def step(mode: str, logprob: float | None) -> str:
    """Return the tint of a token by its natural log-probability; UNKNOWN for None."""
    if logprob is None:
        return UNKNOWN
    if mode == SURPRISAL:
        return STEPS[bisect_right(_MOST, -logprob / math.log(2))]
    return STEPS[sum(math.exp(logprob) < least for least in _LEAST)]


class Tints:
    """The tints of one branch's text, extended as it grows.

    ``known`` returns the log-probabilities; ``version`` returns a number that increases when more of them are
    known.
    """

    def __init__(
        self, mode: str, known: Callable[[Branch], Sequence[float | None]], version: Callable[[], int]
    ) -> None:
        self.mode, self._known, self._version = mode, known, version
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
        if self.mode == AUTHOR:
            yield from _authors(buffer, start, end)
            return
        ends = buffer.ends
        if len(self._names) < len(ends):
            self._names += [step(self.mode, value) for value in self._known(branch)[len(self._names) :]]
        at = bisect_right(ends, start)
        while start < end and at < min(len(ends), len(self._names)):
            if ends[at] > start:
                yield start, min(end, ends[at]), self._names[at]
                start = ends[at]
            at += 1


def _authors(buffer: Buffer, start: int, end: int) -> Iterator[tuple[int, int, str]]:
    for begin, stop in buffer.typed:
        if max(begin, start) < min(stop, end):
            yield max(begin, start), min(stop, end), WRITER
