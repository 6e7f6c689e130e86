"""Finds words in a long text at once, whatever their case. Knows texts alone."""

from __future__ import annotations


class Finder:
    """The places of some words in ``text``, found when asked for: a list of all takes a moment in a book."""

    def __init__(self, text: str) -> None:
        self._text = _lowered(text)
        self._words = ""

    def look(self, words: str) -> int:
        """Look for ``words`` from now on; the number of their places."""
        self._words = _lowered(words)
        return self._text.count(self._words) if words else 0

    def after(self, place: int) -> tuple[int, int] | None:
        """(first character, character after its last) of the next place that begins at or behind ``place``.

        Behind the last place comes the first one again. None if the words are nowhere.
        """
        start = self._text.find(self._words, place) if self._words else -1
        return self._span(start if start >= 0 else self._text.find(self._words))

    def before(self, place: int) -> tuple[int, int] | None:
        """The last place that ends at ``place`` or before it; before the first place comes the last one."""
        start = self._text.rfind(self._words, 0, place) if self._words else -1
        return self._span(start if start >= 0 else self._text.rfind(self._words))

    def number(self, start: int) -> int:
        """Which place begins at ``start``; the first one is 1."""
        return self._text.count(self._words, 0, start) + 1

    def _span(self, start: int) -> tuple[int, int] | None:
        return (start, start + len(self._words)) if self._words and start >= 0 else None


def _lowered(text: str) -> str:
    """``text`` in small letters, each where it was; two that change with their place have one form."""
    small = text.replace("İ", "i").lower()  # of all capitals only that one becomes two characters
    return small.replace("ς", "σ").replace("ſ", "s")
