"""Finds words in a long text, and puts others in their place. Knows texts alone.

What is found, counted and replaced is one list of places; none overlaps another.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right


class Finder:
    """The places of some words in ``text``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._lowered: str | None = None
        self._words = ""
        self._starts: list[int] = []

    def look(self, words: str, case: bool = False, whole: bool = False) -> int:
        """Look for ``words`` from now on; the number of their places.

        Args:
            case: capitals and small letters differ.
            whole: not where a letter, a digit or an underscore stands before or behind.
        """
        self._words = words
        if not words:
            self._starts = []
            return 0
        if not case and self._lowered is None:
            self._lowered = _lowered(self._text)
        text, pattern = (self._text, words) if case else (self._lowered or "", _lowered(words))
        pattern = re.escape(pattern)
        if whole:
            pattern = rf"(?<!\w){pattern}(?!\w)"
        self._starts = [found.start() for found in re.finditer(pattern, text)]
        return len(self._starts)

    def after(self, place: int) -> tuple[int, int] | None:
        """(first character, character after its last) of the next place that begins at or behind ``place``.

        Behind the last place comes the first one again. None if the words are nowhere.
        """
        return self._span(bisect_left(self._starts, place) % (len(self._starts) or 1))

    def before(self, place: int) -> tuple[int, int] | None:
        """The last place that ends at ``place`` or before it; before the first place comes the last one."""
        return self._span(bisect_right(self._starts, place - len(self._words)) - 1)

    def number(self, start: int) -> int:
        """Which place begins at ``start``; the first one is 1."""
        return bisect_left(self._starts, start) + 1

    def replaced(self, by: str) -> str:
        """The text with ``by`` in every place."""
        parts, behind = list[str](), 0
        for start in self._starts:
            parts += [self._text[behind:start], by]
            behind = start + len(self._words)
        return "".join([*parts, self._text[behind:]])

    def around(self, place: tuple[int, int], room: int) -> tuple[str, str, str]:
        """What stands before, in and behind a place, in its paragraph; at most ``room`` characters each."""
        start, end = place
        before = self._text[max(0, start - room) : start].rpartition("\n")[2]
        behind = self._text[end : end + room].partition("\n")[0]
        return before, self._text[start:end], behind

    def _span(self, index: int) -> tuple[int, int] | None:
        if not self._starts:
            return None
        return self._starts[index], self._starts[index] + len(self._words)


def _lowered(text: str) -> str:
    """``text`` in small letters, each where it was; two that change with their place have one form."""
    small = text.replace("İ", "i").lower()  # of all capitals only that one becomes two characters
    return small.replace("ς", "σ").replace("ſ", "s")
