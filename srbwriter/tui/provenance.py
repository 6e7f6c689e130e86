"""Who wrote which part of a text, kept true while somebody types in it. Knows no widget and no story."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from srbwriter.story import Author


class Provenance:
    """Stretches of a text by who wrote them, in order."""

    def __init__(self, parts: Iterable[tuple[int, Author]] = ()) -> None:
        """``parts`` are lengths in characters; neighbours of one author become one stretch."""
        self._ends: list[int] = []
        self._authors: list[Author] = []
        end = 0
        for length, author in parts:
            end += length
            if length:
                self._append(end, author)

    def _append(self, end: int, author: Author) -> None:
        if self._authors and self._authors[-1] == author:
            self._ends[-1] = end
        else:
            self._ends.append(end)
            self._authors.append(author)

    @property
    def length(self) -> int:
        """Characters of the text."""
        return self._ends[-1] if self._ends else 0

    def between(self, start: int, end: int) -> Iterator[tuple[int, int, Author]]:
        """(first character, character after the last, author) of each stretch from ``start`` to ``end``."""
        index = bisect_right(self._ends, start)
        while start < end and index < len(self._ends):
            stop = min(end, self._ends[index])
            yield start, stop, self._authors[index]
            start, index = stop, index + 1

    def typed(self, start: int, end: int, length: int) -> None:
        """The writer has put ``length`` characters in place of those from ``start`` to ``end``."""
        first = max(0, bisect_right(self._ends, start) - 1)
        last = min(len(self._ends), bisect_right(self._ends, end) + 1)
        begin, stop = self._ends[first - 1] if first else 0, self._ends[last - 1] if last else 0
        around = Provenance(
            [
                *((below - above, author) for above, below, author in self.between(begin, start)),
                (length, "writer"),
                *((below - above, author) for above, below, author in self.between(end, stop)),
            ]
        )
        grown = length - (end - start)
        later = [place + grown for place in self._ends[last:]]
        self._ends[first:] = [*(begin + place for place in around._ends), *later]
        self._authors[first:last] = around._authors
