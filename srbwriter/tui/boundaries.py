"""The steps of the taking cursor, and of the editor's by words where its own are too wide.

Pure functions on text; knows no widget and no branch.
"""

from __future__ import annotations

from srbwriter.prose import Unit, unit_ends
from srbwriter.unspaced import CHARACTER, words


def step(text: str, offset: int, unit: Unit, direction: int) -> int:
    """The unit end next to ``offset``, after it (``direction`` 1) or before it (-1); 0 is the start."""
    ends = unit_ends(text, unit)
    if direction > 0:
        return next((end for end in ends if end > offset), len(text.rstrip()))
    return next((end for end in reversed(ends) if end < offset), 0)


def word_step(line: str, column: int, usual: int) -> int:
    """Where a step by a word goes from ``column`` of ``line``; to ``usual`` in scripts with spaces.

    In others it goes to the end of the word, or to its start if ``usual`` lies to the left.
    """
    if line.isascii() or not CHARACTER.search(line):
        return usual
    known = words(line)
    if usual < column:
        last = len(line[:column].rstrip())
        start = max((start for start, end in known if start < last <= end), default=None)
        return max([usual, *(end for _, end in known if end < last)]) if start is None else start
    first = column + len(line[column:]) - len(line[column:].lstrip())
    end = next((end for start, end in known if start <= first < end), None)
    return min([usual, *(start for start, _ in known if start > first)]) if end is None else end
