"""Words coloured by how likely their tokens were, or by who wrote them.

Five steps that every theme and depth of colour tells apart, by their letters too where a theme has one colour
or the terminal none. Knows branches and log-probabilities; paints nothing.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from srbwriter.engine.generation import Branch, Buffer

NONE, PROBABILITY, SURPRISAL, AUTHOR = MODES = ("none", "probability", "surprisal", "author")
STEPS = ("tint-0", "tint-1", "tint-2", "tint-3", "tint-4")
UNKNOWN = "tint-unknown"
WRITER = "tint-writer"
TINTS = (*STEPS, UNKNOWN, WRITER)

_LEAST = (0.5, 0.2, 0.05, 0.01)  # probabilities of the first four steps
_MOST = (3.0, 6.0, 9.0, 12.0)  # bits of surprisal of the same

LEGENDS = {
    PROBABILITY: (("50 % and more", STEPS[0]), ("20 %", STEPS[1]), ("5 %", STEPS[2]), ("1 %", STEPS[3]),
                  ("less", STEPS[4]), ("not known", UNKNOWN)),
    SURPRISAL: (("expected", STEPS[0]), ("3 bits", STEPS[1]), ("6 bits", STEPS[2]), ("9 bits", STEPS[3]),
                ("12 bits", STEPS[4]), ("not known", UNKNOWN)),
    AUTHOR: (("the model", STEPS[0]), ("yours", WRITER)),
}  # fmt: skip
"""What the colours of each mode mean, in words, with the tints that show it."""


def step(mode: str, logprob: float | None) -> str:
    """The tint of a token; ``logprob`` is the natural logarithm of how likely it was, None if not known."""
    if logprob is None:
        return UNKNOWN
    if mode == SURPRISAL:
        return STEPS[bisect_right(_MOST, -logprob / math.log(2))]
    return STEPS[sum(math.exp(logprob) < least for least in _LEAST)]


class Tints:
    """The tints of one branch's text, made further as it grows.

    ``known`` tells the log-probabilities, ``version`` a number that goes up when more of them are known.
    """

    def __init__(
        self, mode: str, known: Callable[[Branch], Sequence[float | None]], version: Callable[[], int]
    ) -> None:
        self.mode, self._known, self._version = mode, known, version
        self._names: list[str] = []
        self._of: tuple[Buffer, bool, int] | None = None

    def stale(self, branch: Branch) -> bool:
        """Whether what was painted may have other tints now."""
        now = branch.buffer, branch.live, self._version()
        before = self._of
        if before is not None and before[0] is now[0] and before[1:] == now[1:]:
            return False
        self._of, self._names = now, []
        return before is not None

    def between(self, branch: Branch, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """(first character, character after the last, tint) of the stretches from ``start`` to ``end``."""
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
