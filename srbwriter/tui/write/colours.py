"""Colours of words: of branches by the probability of their tokens, of the story by who wrote it.

Four steps, distinct in every theme and colour depth, also by font style where a terminal has no colours.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from textual.content import Content

from srbwriter.engine.generation import Branch, Buffer
from srbwriter.tui.prose import STYLES, Mark

NONE, AUTHOR, SURPRISAL = "none", "author", "surprisal"
STEPS = ("tint-0", "tint-1", "tint-2", "tint-3")
UNKNOWN = "unknown"

_MOST = (6.0, 9.0, 12.0)  # highest surprisal of the first three steps, in bits

_LEGENDS = {
    SURPRISAL: ("Unlikely words of the branches", (
        ("above 1.6 %", STEPS[0]), ("below 1.6 %", STEPS[1]), ("0.2 %", STEPS[2]), ("0.02 %", STEPS[3]),
        ("not known yet", UNKNOWN),
    )),
    AUTHOR: ("Who wrote what", (
        ("yours", STEPS[0]), ("the model", "model"), ("edited by you", "edited"), ("imported", "imported"),
    )),
}  # fmt: skip


def legend(mode: str) -> Content:
    """Return the meaning of the colours in one line; empty if words are not coloured."""
    heading, entries = _LEGENDS.get(mode, ("", ()))
    parts: list[tuple[str, str]] = [(f" {heading}: ", "")] if heading else []
    for words, name in entries:
        parts += [(words, STYLES.get(name, "$foreground")), ("   ", "")]
    return Content.assemble(*parts)


def step(logprob: float | None) -> str:
    """Return the tint of a token by its natural log-probability; UNKNOWN for None."""
    if logprob is None:
        return UNKNOWN
    return STEPS[bisect_right(_MOST, -logprob / math.log(2))]


class Spans:
    """A text divided into spans of one style, in order: (length in characters, style) pairs."""

    def __init__(self, parts: Iterable[tuple[int, str]] = ()) -> None:
        known = list(parts)
        self._ends = list(accumulate(length for length, _ in known))
        self._styles = [style for _, style in known]

    def between(self, start: int, end: int) -> Iterator[Mark]:
        """Yield each span between ``start`` and ``end``."""
        index = bisect_right(self._ends, start)
        while start < end and index < len(self._ends):
            yield start, min(end, self._ends[index]), self._styles[index]
            start, index = self._ends[index], index + 1


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

    def between(self, branch: Branch, start: int, end: int) -> Iterator[Mark]:
        """Yield each token's span between ``start`` and ``end``."""
        ends = branch.buffer.ends
        if len(self._names) < len(ends):
            self._names += [step(value) for value in self._known(branch)[len(self._names) :]]
        at = bisect_right(ends, start)
        while start < end and at < min(len(ends), len(self._names)):
            yield start, min(end, ends[at]), self._names[at]
            start, at = ends[at], at + 1
