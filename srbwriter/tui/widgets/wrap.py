"""Soft wrapping of text that grows at its end.

Appending wraps only the last line again, so the cost of a token does not depend on the length of the text.
Widths are terminal cells, positions are characters.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rich.cells import cell_len

# Scripts written without spaces, and emoji: a line may break before and after each character.
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f000-\U0001faff"
)
_PIECE = re.compile(rf"\n|[^\S\n]+|[{_WIDE}]|[^\s{_WIDE}]+")


class Line(NamedTuple):
    """One screen line: characters ``start`` to ``end`` of the text."""

    start: int
    end: int


class Wrapper:
    """A text and its screen lines at one width."""

    def __init__(self, width: int = 1) -> None:
        self._width = max(1, width)
        self.text = ""
        self.lines: list[Line] = []

    @property
    def width(self) -> int:
        return self._width

    def resize(self, width: int) -> bool:
        """Wrap at another width; return False if it is unchanged."""
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
        """Append text; return True if more than the last line changed."""
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
        """Return the characters of screen line ``index`` without the newline."""
        line = self.lines[index]
        return self.text[line.start : line.end].rstrip("\n")

    def line_of(self, offset: int) -> int:
        """Return the screen line that contains character ``offset``; the last one for later offsets."""
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
        if start == 0:  # skip leading spaces, which would look like an indent
            start = len(self.text) - len(self.text.lstrip(" \n"))
        for piece in _PIECE.finditer(self.text, start):
            at, word = piece.start(), piece.group()
            if word == "\n":
                self.lines.append(Line(start, piece.end()))
                start, used = piece.end(), 0
                continue
            width = cell_len(word)
            if word.isspace():  # spaces may exceed the width rather than start the next line
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
