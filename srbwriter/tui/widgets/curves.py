"""The surprise of a branch's tokens as one line of signs, one level for each bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import fmean

from srbwriter.engine.generation import Branch, Buffer

LEVELS = "▁▂▃▄▅▆▇█"
"""Below one bit, below two, and so on; the last one is seven bits and more."""

_CELLS, _FEW_CELLS = 16, 8  # signs of a curve at most; fewer in narrow panes
_NARROW = 40


def sparkline(logprobs: Sequence[float | None], cells: int) -> str:
    """Return a sign for each token, or for 2, 4, 8 … tokens where there are more than ``cells``.

    A sign shows the mean surprisal of its tokens. It is a space where none is known.
    """
    step = 1
    while len(logprobs) > step * cells:
        step *= 2
    signs: list[str] = []
    for at in range(0, len(logprobs), step):
        known = [value for value in logprobs[at : at + step] if value is not None]
        bits = -fmean(known) / math.log(2) if known else 0.0
        signs.append(LEVELS[min(int(bits), len(LEVELS) - 1)] if known else " ")
    return "".join(signs).strip()


class Curve:
    """The curve of one branch, which is computed again only when there is more to show.

    ``known`` returns the log-probabilities; ``version`` returns a number that increases when more of them are
    known.
    """

    def __init__(self, known: Callable[[Branch], Sequence[float | None]], version: Callable[[], int]) -> None:
        self._known, self._version = known, version
        self._of: tuple[Buffer, int, bool, int, int] | None = None
        self._signs = ""

    def signs(self, branch: Branch, width: int) -> str:
        """Return the curve of ``branch`` as it is now, for a pane of ``width`` cells."""
        cells = _CELLS if width >= _NARROW else _FEW_CELLS
        now = branch.buffer, len(branch.buffer.ids), branch.live, self._version(), cells
        if self._of is None or self._of[0] is not now[0] or self._of[1:] != now[1:]:
            self._of, self._signs = now, sparkline(self._known(branch), cells)
        return self._signs
