"""An editor for prose: the movements that writers' hands know, and text that stays as it was given.

Textual's own ends a line at every character that Unicode calls a line's end, and so turns a line separator of
a pasted text into a new paragraph. Here only a newline does. Knows text; knows no story.

What is not public in Textual's text area is used here and in ``long_lines.py`` alone.
"""

from __future__ import annotations

from typing import ClassVar, cast

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import Document, EditResult
from textual.document._document_navigator import DocumentNavigator
from textual.document._wrapped_document import WrappedDocument
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import TextArea
from textual.widgets.text_area import Edit, Location

from srbwriter import unspaced
from srbwriter.prose import Unit, unit_ends
from srbwriter.tui.commands import Keyed
from srbwriter.tui.write import hints
from srbwriter.tui.write.long_lines import OneRow, PlainDocument, PlainWrapped, Row
from srbwriter.unspaced import CHARACTER, words


def unit_step(text: str, offset: int, unit: Unit, direction: int) -> int:
    """The unit end next to ``offset``, after it (``direction`` 1) or before it (-1); 0 is the start."""
    ends = unit_ends(text, unit)
    if direction > 0:
        return next((end for end in ends if end > offset), len(text.rstrip()))
    return next((end for end in reversed(ends) if end < offset), 0)


def word_step(line: str, column: int, usual: int) -> int:
    """Where a unit_step by a word goes from ``column`` of ``line``; to ``usual`` in scripts with spaces.

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


def tell_of_dictionaries(widget: Widget, text: str) -> None:
    """Say once, in this run or an earlier one, that dictionaries with words of ``text`` can be installed."""
    if CHARACTER.search(text) and unspaced.word_breaker() is None and hints.give_once("asian-words"):
        widget.notify(
            "Each character counts as a word in Chinese, Japanese, Thai, Lao, Khmer and Burmese. "
            "`pip install icu4py` brings dictionaries, and steps go by whole words."
        )


_CONTROLS = {*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029} - {0x09, 0x0A}
_UNSEEN = dict.fromkeys(_CONTROLS, "\u200b")


def drawable(text: str) -> str:
    """``text`` as it may be sent to a terminal, which would obey control characters; as long as before."""
    return text.translate(_UNSEEN)


def _both(keys: str, action: str, words: str) -> list[BindingType]:
    """A movement, and the selection that the same key makes with shift."""
    with_shift = ",".join(
        "+".join([*key.split("+")[:-1], "shift", key.split("+")[-1]]) for key in keys.split(",")
    )
    return [
        Binding(keys, action, words, show=False),
        Binding(with_shift, f"{action}(True)", f"{words}, selecting", show=False),
    ]


class ProseArea(Keyed, TextArea):
    """Text with soft wrapping. Where it has no focus, a line below a character shows the cursor's place."""

    KEYS = "In a text"
    BINDINGS: ClassVar[list[BindingType]] = [
        *_both("ctrl+home", "cursor_start", "to the beginning"),
        *_both("ctrl+end", "cursor_end", "to the end"),
        *_both("ctrl+up,alt+up", "cursor_paragraph_up", "a paragraph up"),
        *_both("ctrl+down,alt+down", "cursor_paragraph_down", "a paragraph down"),
        *_both("pageup", "cursor_page_up", "a page up"),
        *_both("pagedown", "cursor_page_down", "a page down"),
        *_both("alt+left", "cursor_word_left", "a word left"),
        *_both("alt+right", "cursor_word_right", "a word right"),
        Binding("alt+backspace", "delete_word_left", "delete a word left", show=False),
        Binding("ctrl+delete,alt+delete", "delete_word_right", "delete a word right", show=False),
    ]  # fmt: skip
    DEFAULT_CSS = """
    ProseArea:blur .text-area--cursor { color: $foreground; background: $background; text-style: underline; }
    """

    _painted: tuple[int, int] | None = None  # the characters of a long paragraph in the row being painted

    @property
    def _lines(self) -> Document:
        return cast(Document, self.document)  # always one: no language is ever set

    def _set_document(self, text: str, language: str | None) -> None:
        self._highlight_query = None
        self.document = document = PlainDocument(text)
        wrapped = PlainWrapped(document, tab_width=self.indent_width)
        self.wrapped_document, self.navigator = wrapped, DocumentNavigator(wrapped)
        self._build_highlight_map()
        self.move_cursor((0, 0))
        self._rewrap_and_refresh_virtual_size()

    def get_line(self, line_index: int) -> Text:
        """A paragraph as it is painted; of a long one the row that is being painted, as :class:`Row`."""
        line = self.document.get_line(line_index)
        if self._painted is None:
            return Text(drawable(line), end="", no_wrap=True)
        start, end = self._painted
        return Row(drawable(line[start:end]), start, len(line))

    def _render_line(self, y: int) -> Strip:
        wrapped, place = self.wrapped_document, y + self.scroll_offset.y
        assert isinstance(wrapped, PlainWrapped)
        index, self._painted = wrapped.long_row(place)
        if self._painted is None:
            return super()._render_line(y)
        self.wrapped_document = cast(WrappedDocument, OneRow(place, index))
        try:
            return super()._render_line(y)
        finally:
            self.wrapped_document, self._painted = wrapped, None

    @property
    def rows_below(self) -> int:
        """Empty rows to scroll to below the last line."""
        return 0

    def rewrap(self) -> None:
        """Wrap the lines again for the width there is."""
        self._rewrap_and_refresh_virtual_size()

    def refresh_size(self) -> None:
        """Scroll as far as there are rows now."""
        self._refresh_size()

    def _refresh_size(self) -> None:
        super()._refresh_size()
        if below := self.rows_below:
            self.virtual_size = Size(self.virtual_size.width, self.wrapped_document.height + below)

    @property
    def _draw_cursor(self) -> bool:
        return not self.has_focus or super()._draw_cursor

    def edit(self, edit: Edit) -> EditResult:
        """Textual scrolls to the cursor before it knows of a line that the edit has added below."""
        result = super().edit(edit)
        if self.is_mounted:
            self.scroll_cursor_visible()
        return result

    def on_paste(self, event: events.Paste) -> None:
        """Lines of what is pasted may end in the ways of other systems; terminals send a return."""
        event.text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        event.stop()  # it has been taken: nobody else is to say that it was not

    # ---- movements

    def action_cursor_start(self, select: bool = False) -> None:
        self.move_cursor((0, 0), select)

    def action_cursor_end(self, select: bool = False) -> None:
        self.move_cursor(self.document.end, select)

    def action_cursor_paragraph_up(self, select: bool = False) -> None:
        """To the beginning of this paragraph, or of the one before it."""
        row, column = self.cursor_location
        row -= column == 0
        while row > 0 and not self.document[row].strip():
            row -= 1
        self.move_cursor((max(0, row), 0), select)

    def action_cursor_paragraph_down(self, select: bool = False) -> None:
        """To the beginning of the next paragraph, or to the text's end."""
        row, count = self.cursor_location[0] + 1, self.document.line_count
        while row < count and not self.document[row].strip():
            row += 1
        self.move_cursor((row, 0) if row < count else self.document.end, select)

    def action_cursor_page_up(self, select: bool = False) -> None:
        self._page(-1, select)

    def action_cursor_page_down(self, select: bool = False) -> None:
        self._page(1, select)

    def _page(self, pages: int, select: bool) -> None:
        rows = pages * self.content_size.height
        target = self.navigator.get_location_at_y_offset(self.cursor_location, rows)
        self.scroll_relative(y=rows, animate=False)
        self.move_cursor(target, select)

    def get_cursor_word_left_location(self) -> Location:
        return self._word_step(self.cursor_location, super().get_cursor_word_left_location())

    def get_cursor_word_right_location(self) -> Location:
        return self._word_step(self.cursor_location, super().get_cursor_word_right_location())

    def _word_step(self, here: Location, usual: Location) -> Location:
        """Where a step by a word goes: Textual knows none where no space parts them."""
        if here[0] != usual[0]:
            return usual
        line = self.document[here[0]]
        tell_of_dictionaries(self, line)
        return here[0], word_step(line, here[1], usual[1])

    def action_delete_word_right(self) -> None:
        row, column = self.cursor_location
        if self.selection.is_empty and not self.read_only and CHARACTER.search(self.document[row], column):
            end = self.get_cursor_word_right_location()
            self.delete((row, column), end, maintain_selection_offset=False)
        else:
            super().action_delete_word_right()
