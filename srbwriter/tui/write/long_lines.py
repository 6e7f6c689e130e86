"""Wrapping and painting of long paragraphs, one screen row at a time.

Textual wraps a whole paragraph again for every key, and builds all of its rows to paint one of them: with
five hundred rows a key took a second. Here a key wraps only the rows around it, and each row is built alone.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from rich.containers import Lines
from rich.style import Style
from rich.text import Text
from textual._wrap import compute_wrap_offsets
from textual.document._document import Document, EditResult, Location
from textual.document._wrapped_document import WrappedDocument

LONG = 2_000
"""Length in characters from which a paragraph is handled here."""


def is_long(line: str) -> bool:
    """Return whether ``line`` is handled here. Paragraphs with tabs are not: a tab's width depends on the
    text before it."""
    return len(line) > LONG and "\t" not in line


_AROUND = 4_096  # characters that are wrapped to find where old and new rows coincide again


class PlainDocument(Document):
    """A document whose lines end only at a newline; all other characters are kept unchanged."""

    def __init__(self, text: str) -> None:
        self._newline = "\n"
        self._lines = text.split("\n")
        self._text: str | None = text  # cached; None after an edit

    @property
    def text(self) -> str:
        """The whole text, cached: Textual asks for it for every line that it paints."""
        if self._text is None:
            self._text = "\n".join(self._lines)
        return self._text

    def replace_range(self, start: Location, end: Location, text: str) -> EditResult:
        (top, left), (bottom, right) = sorted((start, end))
        replaced = self.get_text_range((top, left), (bottom, right))
        before = self._lines[top][:left] if top < len(self._lines) else ""
        behind = self._lines[bottom][right:] if bottom < len(self._lines) else ""
        fresh = f"{before}{text}".split("\n")
        column = len(fresh[-1])
        fresh[-1] += behind
        self._lines[top : bottom + 1] = fresh
        self._text = None
        return EditResult((top + len(fresh) - 1, column), replaced)


class PlainWrapped(WrappedDocument):
    """A wrapped document with a cached height: Textual counts the lines for it, for every painted line."""

    @property
    def height(self) -> int:
        return len(self._offset_to_line_info)

    def get_sections(self, line_index: int) -> list[str]:
        line, offsets = self.document[line_index], self._wrap_offsets[line_index]
        return [line[start:end] for start, end in zip([0, *offsets], [*offsets, len(line)], strict=True)]

    def long_row(self, place: int) -> tuple[int, tuple[int, int] | None]:
        """Return the paragraph of screen row ``place`` and its span of characters; None for a short
        paragraph."""
        if place >= self.height:
            return 0, None
        index, row = self._offset_to_line_info[place]
        line, offsets = self.document[index], self._wrap_offsets[index]
        if not offsets or not is_long(line):
            return index, None
        return index, (offsets[row - 1] if row else 0, offsets[row] if row < len(offsets) else len(line))

    def wrap_range(self, start: Location, old_end: Location, new_end: Location) -> None:
        (row, column), (last, old_column), (new_row, new_column) = *sorted((start, old_end)), new_end
        line = self.document[row] if row == last == new_row else ""
        if self._width and line and "\t" not in line:
            old = self._wrap_offsets[row]
            if is_long(line):
                offsets = rewrapped(line, self._width, old, column, old_column, new_column)
            else:
                offsets = compute_wrap_offsets(line, self._width, self._tab_width)
            if len(offsets) == len(old) and not any(self._tab_width_cache[row]):  # no row moved
                self._wrap_offsets[row] = offsets
                return
        super().wrap_range(start, old_end, new_end)


def rewrapped(line: str, width: int, old: list[int], start: int, old_end: int, new_end: int) -> list[int]:
    """Return the row breaks of ``line``, which has no tab, after an edit.

    Args:
        line: The paragraph after the edit.
        width: Cells per row.
        old: The row breaks before the edit.
        start: The first character of the edit.
        old_end: The end of the replaced text.
        new_end: The end of the inserted text.
    """
    kept = max(0, bisect_right(old, start) - 3)  # a shortened word may move up to the previous row
    first = old[kept - 1] if kept else 0
    grown, size = new_end - old_end, _AROUND + new_end - first
    while True:
        part = line[first : first + size]
        wrapped = WrappedDocument(PlainDocument(part), width)
        found = [first + offset for offset in wrapped.get_offsets(0)]
        if first + size >= len(line):
            return [*old[:kept], *found]
        sure = first + len(part.rstrip()) - 2 * width  # later breaks may differ in the whole line
        for index, offset in enumerate(found):
            if new_end <= offset < sure:
                place = bisect_left(old, offset - grown)
                if place < len(old) and old[place] == offset - grown:
                    return [*old[:kept], *found[:index], *(each + grown for each in old[place:])]
        size *= 4


class Row(Text):
    """One row of a paragraph that stands in for the whole: accepts styles by the paragraph's columns.

    ``row`` is the row itself; it starts at character ``start`` of ``length``.
    """

    def __init__(self, row: str, start: int, length: int) -> None:
        super().__init__("", end="", no_wrap=True)
        self.row = Text(row, end="", no_wrap=True)
        self.start, self._characters = start, length
        self._last = start + len(row) == length

    def __len__(self) -> int:
        return self._characters

    def set_length(self, new_length: int) -> None:
        """Add the space at the paragraph's end on which the cursor can be."""
        if self._last:
            self.row.set_length(new_length - self.start)

    def stylize(self, style: str | Style, start: int = 0, end: int | None = None) -> None:
        end = len(self.row) if end is None else end - self.start
        self.row.stylize(style, max(0, start - self.start), max(0, end))

    def divide(self, offsets: Iterable[int]) -> Lines:
        return Lines([self.row])


class OneRow:
    """The part of a wrapped document that Textual needs to paint the row at ``place``."""

    def __init__(self, place: int, line_index: int) -> None:
        self.height = place + 1
        self._offset_to_line_info = {place: (line_index, 0)}

    def get_offsets(self, line_index: int) -> list[int]:
        return [1]

    def get_tab_widths(self, line_index: int) -> list[int]:
        return []
