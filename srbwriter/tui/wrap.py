"""Soft wrapping of text that grows at its end.

Only the last line is wrapped again when text is appended, so the cost of a token does not depend on the
length of the text. Widths are terminal cells, positions are characters. Knows no widget.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len

# Scripts written without spaces, and emoji: a line may end before and after each character.
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f000-\U0001faff"
)
_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")


class Line(NamedTuple):
    """Characters ``start`` to ``end`` of the text stand on one screen line."""

    start: int
    end: int


class Wrapper:
    """Text and its screen lines at one width."""

    def __init__(self, width: int = 1) -> None:
        self._width = max(1, width)
        self.text = ""
        self.lines: list[Line] = []

    @property
    def width(self) -> int:
        return self._width

    def resize(self, width: int) -> bool:
        """Wrap at another width; False if it is the same as before."""
        width = max(1, width)
        if width == self._width:
            return False
        self._width = width
        self.reset(self.text)
        return True

    def reset(self, text: str) -> None:
        self.text = text
        self.lines = []
        if text:
            self._wrap_from(0)

    def append(self, text: str) -> bool:
        """Add text at the end; True if that changed more than the last line."""
        if not text:
            return False
        before = len(self.lines)
        start = self.lines.pop().start if before > 1 else 0
        if before == 1:
            self.lines.clear()
        self.text += text
        self._wrap_from(start)
        return len(self.lines) != before

    def shown(self, index: int) -> str:
        """The characters of screen line ``index``, without what ended it."""
        line = self.lines[index]
        return self.text[line.start : line.end].rstrip("\n")

    def line_of(self, offset: int) -> int:
        """The screen line that holds character ``offset``; the last one for offsets behind the text."""
        low, high = 0, len(self.lines)
        while low < high:
            middle = (low + high) // 2
            if self.lines[middle].end <= offset:
                low = middle + 1
            else:
                high = middle
        return max(0, min(low, len(self.lines) - 1))

    def _wrap_from(self, start: int) -> None:
        used = 0
        if start == 0:  # what joins the text to the text before it would look like an indent
            start = len(self.text) - len(self.text.lstrip(" \n"))
        for piece in _PIECE.finditer(self.text, start):
            at, word = piece.start(), piece.group()
            if word == "\n":
                self.lines.append(Line(start, piece.end()))
                start, used = piece.end(), 0
                continue
            width = cell_len(word)
            if word.isspace():  # hangs over the edge rather than opening the next line
                used += width
                continue
            if used and used + width > self._width:
                self.lines.append(Line(start, at))
                start, used = at, 0
            if width <= self._width:
                used += width
                continue
            for offset, character in enumerate(word, at):
                cells = cell_len(character)
                if used + cells > self._width and offset > start:
                    self.lines.append(Line(start, offset))
                    start, used = offset, 0
                used += cells
        self.lines.append(Line(start, len(self.text)))
