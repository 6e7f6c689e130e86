"""The editor for the story's text, a window of it at a time, with the author of each part.

A key costs the same in a long book as on the first page, because only the window is in the text area. Undo
belongs to the story, not to the widget. The editor knows text only; the screen connects it to the session.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Offset, Size
from textual.message import Message
from textual.widget import Widget
from textual.widgets.text_area import Edit, EditResult, Selection

from srbwriter import story
from srbwriter.story.edits import same_end, same_start
from srbwriter.tui.widgets.tints import TINTS
from srbwriter.tui.write.long_lines import Row
from srbwriter.tui.write.prose_area import ProseArea


class Provenance:
    """The spans of a text by author, or by the tint of their tokens, in order."""

    def __init__(self, parts: Iterable[tuple[int, str]] = ()) -> None:
        """Take (length in characters, author) pairs; neighbours with one author become one span."""
        self._ends: list[int] = []
        self._authors: list[str] = []
        end = 0
        for length, author in parts:
            end += length
            if length:
                self._append(end, author)

    def _append(self, end: int, author: str) -> None:
        if self._authors and self._authors[-1] == author:
            self._ends[-1] = end
        else:
            self._ends.append(end)
            self._authors.append(author)

    @property
    def length(self) -> int:
        """The length of the text in characters."""
        return self._ends[-1] if self._ends else 0

    def between(self, start: int, end: int) -> Iterator[tuple[int, int, str]]:
        """Yield (start, end, author) of each span between ``start`` and ``end``."""
        index = bisect_right(self._ends, start)
        while start < end and index < len(self._ends):
            stop = min(end, self._ends[index])
            yield start, stop, self._authors[index]
            start, index = stop, index + 1

    def typed(self, start: int, end: int, length: int) -> None:
        """Record that the writer replaced ``start`` to ``end`` with ``length`` characters."""
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


WINDOW = 48_000
"""Characters of the story in the text area at a time."""

_PLACEHOLDER = "Begin here …"
_SAY_AGAIN_SECONDS = 4.0  # between two messages that the story is read-only


def window_around(text: str, offset: int, size: int = WINDOW) -> tuple[int, int]:
    """Return the span to show: about ``size`` characters around ``offset``, cut at paragraphs."""
    if len(text) <= size:
        return 0, len(text)
    start = max(0, min(offset - size // 2, len(text) - size))
    end = min(len(text), start + size)
    if start:
        start = text.find("\n", start, start + size // 4) + 1 or start
    if end < len(text):
        end = text.rfind("\n", end - size // 4, end) + 1 or end
    return start, end


_COVERED = 6  # rows at the bottom that a bar may cover


Span = tuple[int, int]


class View(NamedTuple):
    """The visible part of a story, in offsets of the whole: a selection, and the first visible character."""

    start: int
    end: int
    top: int

    def after(self, edits: Iterable[story.Edit]) -> View:
        """Return this view of the text after ``edits``, which are in order and apart."""
        return View(*(_place_after(place, edits) for place in self))


def _place_after(place: int, edits: Iterable[story.Edit]) -> int:
    """Return where ``place`` is after ``edits``; inside a replaced span, the end of the new text."""
    grown = 0
    for edit in edits:
        if edit.end > place:
            return edit.start + grown + len(edit.text) if edit.start < place else place + grown
        grown += len(edit.text) - (edit.end - edit.start)
    return place + grown


def _spans_within(spans: Sequence[Span], start: int, end: int) -> Iterator[Span]:
    """Yield those of the sorted ``spans`` that overlap ``start`` to ``end``."""
    index = bisect_right(spans, start, key=lambda span: span[1])
    while index < len(spans) and spans[index][0] < end:
        yield spans[index]
        index += 1


@dataclass(slots=True)
class LastSearch:
    """The last search and its options, offered again the next time."""

    words: str = ""
    case: bool = False
    whole: bool = False


class StoryEditor(ProseArea):
    """The editor of the story. ``text`` is the window, :attr:`whole` the whole story."""

    DEFAULT_CSS = """
    StoryEditor {
        border: none; padding: 0 2; background: $background;
        &:focus { border: none; }
        & .text-area--cursor-line { background: $background; }
        &:focus .text-area--cursor-line { background: $surface 60%; }
        & .story--model { color: $secondary; text-style: italic; }
        & .story--edited { color: $accent; text-style: bold italic; }
        & .story--imported { color: $text-muted; text-style: dim; }
        & .story--heading { color: $primary; text-style: bold; }
        & .story--scene { color: $text-muted; }
        & .story--tint-1 { color: $text-success; text-style: italic; }
        & .story--tint-2 { color: $text-warning; text-style: bold; }
        & .story--tint-3 { color: $text-error; text-style: bold italic; }
        & .story--tint-unknown { color: $text-muted; }
        & .story--match { color: $text-warning; text-style: underline; }
        & .story--match-selected { color: $text-warning; text-style: bold reverse; }
    }
    """
    COMPONENT_CLASSES = {
        "story--model", "story--edited", "story--imported", "story--heading", "story--scene",
        "story--match", "story--match-selected",
        *(f"story--{tint}" for tint in TINTS),
    }  # fmt: skip

    _typewriter = False  # a class attribute, because TextArea reads it in its constructor

    class Undo(Message):
        """The writer pressed undo; ``forward`` means redo."""

        def __init__(self, forward: bool) -> None:
            self.forward = forward
            super().__init__()

    def __init__(self, edited: Callable[[story.Edit], object], id: str | None = None) -> None:
        """``edited`` is called with every edit by the writer, with offsets in the whole text."""
        self._before = ""  # read while the text area is made
        super().__init__(id=id, soft_wrap=True, show_line_numbers=False, placeholder=_PLACEHOLDER)
        self._edited = edited
        self._after = ""
        self._provenance: Provenance | None = None
        self._matches: Sequence[Span] = ()
        self._why_shut, self._said_at = "", -_SAY_AGAIN_SECONDS
        self.last_search = LastSearch()
        self._quiet = False  # True while the program, not the writer, changes the text
        self._room = Size(0, 0)  # the size that the lines are wrapped for
        self._hidden = False  # whether the editor was hidden, and perhaps wrapped for size zero

    @property
    def whole(self) -> str:
        return self._before + self.text + self._after

    @property
    def hidden(self) -> tuple[int, int]:
        """The number of characters of the story before and after the window."""
        return len(self._before), len(self._after)

    @property
    def place(self) -> int:
        """The cursor's offset in the whole story."""
        return len(self._before) + self._lines.get_index_from_location(self.cursor_location)

    def show(self, text: str, place: int | None = None) -> None:
        """Show ``text``, repainting only the difference; put the cursor at ``place``, by default the end."""
        place = len(text) if place is None else place
        self._keep_colours(text)
        start, end = len(self._before), len(text) - len(self._after)
        kept = text.startswith(self._before) and text.endswith(self._after) and start <= place <= end
        if not kept or end - start > 2 * WINDOW or end < start:
            start, end = window_around(text, place)
            self._before, self._after = text[:start], text[end:]
        self._change(text[start:end])
        self.go(place)

    def _keep_colours(self, text: str) -> None:
        """Let words that ``text`` shares with the text in view keep their colours; others have none yet."""
        before = self.whole
        if self._provenance is None or text == before:
            return
        start = same_start(before, text)
        end = same_end(before, text, min(len(before), len(text)) - start)
        self._provenance.typed(start, len(before) - end, len(text) - start - end)
        self._repaint()

    def go(self, place: int) -> None:
        """Put the cursor at an offset of the whole story; move the window if necessary."""
        inside = place - len(self._before)
        if not 0 <= inside <= len(self.text):
            whole = self.whole
            start, end = window_around(whole, place)
            self._before, self._after = whole[:start], whole[end:]
            self._change(whole[start:end])
            inside = place - start
        self.move_cursor(self._lines.get_location_from_index(inside))
        self.scroll_cursor_visible()

    def go_to_heading(self, place: int) -> None:
        """Put the cursor at the line that starts at ``place``, in the first row."""
        self.go(place)
        row = self.wrapped_document.location_to_offset(self.cursor_location).y
        self.scroll_to(y=row, animate=False)

    def mark(self, start: int, end: int) -> None:
        """Select characters ``start`` to ``end`` of the whole story and scroll to them."""
        self.go(start)
        self._select(start, end)
        row = self.wrapped_document.location_to_offset(self.cursor_location).y - self.scroll_offset.y
        covered = row >= self.scrollable_content_region.height - _COVERED
        self.scroll_cursor_visible(center=covered)

    def _select(self, start: int, end: int) -> None:
        """Select a span of the whole story inside the window."""
        before = len(self._before)
        first, last = (self._lines.get_location_from_index(place - before) for place in (start, end))
        self.selection = Selection(first, last)

    def unmark(self) -> None:
        """Clear the selection, so that no key overwrites it; the cursor stays at its end."""
        self.move_cursor(self.selection.end)

    @property
    def view(self) -> View:
        """The selection and the first visible character, to return to with :meth:`show_view`."""
        index, before = self._lines.get_index_from_location, len(self._before)
        top = self.wrapped_document.offset_to_location(Offset(0, self.scroll_offset.y))
        start, end = self.selection
        return View(before + index(start), before + index(end), before + index(top))

    def show_view(self, view: View) -> None:
        """Restore a selection and scroll to the first visible character."""
        self.go(view.end)
        shown = range(len(self._before), len(self._before) + len(self.text) + 1)
        if view.start in shown:
            self._select(view.start, view.end)
        if view.top in shown:
            top = self._lines.get_location_from_index(view.top - shown.start)
            self.scroll_to(y=self.wrapped_document.location_to_offset(top).y, animate=False)

    @property
    def matches(self) -> Sequence[Span]:
        """Spans (start, end) of the whole story that are highlighted: in order, without overlaps."""
        return self._matches

    @matches.setter
    def matches(self, found: Sequence[Span]) -> None:
        self._matches = found
        self.notify_style_update()

    def _change(self, text: str) -> None:
        old = self.text
        if old == text:
            return
        head = same_start(old, text)
        tail = same_end(old, text, min(len(old), len(text)) - head)
        start = self._lines.get_location_from_index(head)
        end = self._lines.get_location_from_index(len(old) - tail)
        self._quiet = True
        try:
            self.replace(text[head : len(text) - tail], start, end)
        finally:
            self._quiet = False
        self.history.clear()

    def _repaint(self) -> None:
        """Paint all rows in view again: styles of words have changed, the words have not."""
        self.notify_style_update()  # clears the cache of painted lines
        self.refresh()

    @property
    def provenance(self) -> Provenance | None:
        """The authors of :attr:`whole`; None if words are not tinted by author."""
        return self._provenance

    @provenance.setter
    def provenance(self, found: Provenance | None) -> None:
        self._provenance = found
        self._repaint()

    @property
    def typewriter(self) -> bool:
        """Whether the cursor's line stays in the middle, also at the end of the text."""
        return self._typewriter

    @typewriter.setter
    def typewriter(self, on: bool) -> None:
        self._typewriter = on
        self.refresh_size()
        self.call_after_refresh(self.scroll_cursor_visible)

    @property
    def rows_below(self) -> int:
        """Empty rows below the last line, so that it can be in the middle."""
        return self.scrollable_content_region.height // 2 + 1 if self._typewriter else 0

    def scroll_cursor_visible(self, center: bool = False, animate: bool = False) -> Offset:
        return super().scroll_cursor_visible(center or self._typewriter, animate)

    def on_resize(self) -> None:
        self.fit()

    def fit(self) -> None:
        """Wrap the story for the current size; keep the cursor in view, or else the first visible line."""
        if not self.size or (self._room == self._room_now() and not self._hidden):
            self._hidden = not self.size
            return
        first, wrapped = self.scroll_offset.y, self.wrapped_document
        row = wrapped.location_to_offset(self.cursor_location).y
        rows = max(self._room.height, self._room_now().height)  # a taller window has not scrolled yet
        cursor_seen = not self._room or first <= row < first + rows
        reading = wrapped.offset_to_location(Offset(0, first))
        self.rewrap()
        self._room, self._hidden = self._room_now(), False
        if cursor_seen:
            self.scroll_cursor_visible()
        else:
            self.scroll_to(y=self.wrapped_document.location_to_offset(reading).y, animate=False)
        self.refresh()

    def _room_now(self) -> Size:
        return Size(self.wrap_width, self.scrollable_content_region.height)

    def get_component_rich_style(
        self, *names: str, partial: bool = False, default: Style | None = None
    ) -> Style:
        style = super().get_component_rich_style(*names, partial=partial, default=default)
        if names == ("text-area--cursor-line",):  # its background only: words keep their authors' colours
            return Style(bgcolor=style.bgcolor)
        return style

    def get_line(self, line_index: int) -> Text:
        """Return a line with its styles; only visible lines are requested."""
        whole = super().get_line(line_index)
        column, line = (whole.start, whole.row) if isinstance(whole, Row) else (0, whole)
        first = 0
        if self._provenance is not None or self._matches:
            first = len(self._before) + self._lines.get_index_from_location((line_index, 0)) + column
        if self._provenance is not None:
            for start, end, author in self._provenance.between(first, first + len(line.plain)):
                if author not in ("writer", "tint-0"):
                    style = self.get_component_rich_style(f"story--{author}", partial=True)
                    line.stylize(style, start - first, end - first)
        if self._matches:
            view = self.view
            for start, end in _spans_within(self._matches, first, first + len(line.plain)):
                name = "story--match-selected" if (view.start, view.end) == (start, end) else "story--match"
                style = self.get_component_rich_style(name, partial=True)
                line.stylize(style, max(start - first, 0), end - first)
        return whole

    def shut(self, why: str) -> None:
        """Make the editor read-only; ``why`` is shown to a writer who tries to type."""
        self.read_only, self._why_shut = True, why

    def on_key(self, event: events.Key) -> None:
        if event.is_printable or event.key in ("enter", "backspace", "delete"):
            self._say_why()

    def on_paste(self, event: events.Paste) -> None:
        self._say_why()

    def allow_focus(self) -> bool:
        """Refuse the focus while the editor is hidden: typed text must be visible."""
        shown = all(node.display for node in self.ancestors_with_self if isinstance(node, Widget))
        return shown and super().allow_focus()

    def _say_why(self) -> None:
        now = time.monotonic()
        if self.read_only and now - self._said_at >= _SAY_AGAIN_SECONDS:
            self._said_at = now
            self.notify(self._why_shut, severity="error")

    def edit(self, edit: Edit) -> EditResult:
        index = self._lines.get_index_from_location
        start, end = (len(self._before) + index(place) for place in (edit.top, edit.bottom))
        if self._quiet or len(edit.text) <= WINDOW:
            result = super().edit(edit)
        else:  # a pasted book: lay out only a window of it
            whole = self.whole
            self.show(f"{whole[:start]}{edit.text}{whole[end:]}", start + len(edit.text))
            result = EditResult(self.cursor_location, whole[start:end])
        if not self._quiet:
            if self._provenance is not None:
                self._provenance.typed(start, end, len(edit.text))
                self._repaint()  # also letters that are as before: their author may differ
            self._edited(story.Edit(start, end, edit.text))
        return result

    def on_mouse_scroll_up(self) -> None:
        if self._before and not self.scroll_offset.y:
            rows = self.wrapped_document.height
            self._widen(before=WINDOW)
            self.scroll_to(y=self.wrapped_document.height - rows, animate=False)

    def on_mouse_scroll_down(self) -> None:
        if self._after and (top := self.scroll_offset.y) >= self.max_scroll_y:
            self._widen(after=WINDOW)
            self.scroll_to(y=top, animate=False)

    def action_undo(self) -> None:
        self.post_message(self.Undo(forward=False))

    def action_redo(self) -> None:
        self.post_message(self.Undo(forward=True))

    # ---- movements beyond the window

    def action_cursor_start(self, select: bool = False) -> None:
        if select:
            self._widen(before=len(self._before))
        else:
            self.go(0)
        super().action_cursor_start(select)

    def action_cursor_end(self, select: bool = False) -> None:
        if select:
            self._widen(after=len(self._after))
        else:
            self.go(len(self.whole))
        super().action_cursor_end(select)

    def action_select_all(self) -> None:
        self._widen(len(self._before), len(self._after))
        super().action_select_all()

    def action_cursor_up(self, select: bool = False) -> None:
        self._reach(-1, select)
        super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        self._reach(1, select)
        super().action_cursor_down(select)

    def action_cursor_left(self, select: bool = False) -> None:
        self._reach(-1, select)
        super().action_cursor_left(select)

    def action_cursor_right(self, select: bool = False) -> None:
        self._reach(1, select)
        super().action_cursor_right(select)

    def action_cursor_word_left(self, select: bool = False) -> None:
        self._reach(-1, select)
        super().action_cursor_word_left(select)

    def action_cursor_word_right(self, select: bool = False) -> None:
        self._reach(1, select)
        super().action_cursor_word_right(select)

    def action_cursor_paragraph_up(self, select: bool = False) -> None:
        self._reach(-1, select)
        super().action_cursor_paragraph_up(select)

    def action_cursor_paragraph_down(self, select: bool = False) -> None:
        self._reach(1, select)
        super().action_cursor_paragraph_down(select)

    def _page(self, pages: int, select: bool) -> None:
        self._reach(pages, select)
        super()._page(pages, select)

    def _reach(self, direction: int, select: bool) -> None:
        """Move or widen the window if the cursor is at its edge and the story continues beyond it."""
        if direction < 0 and self._before and self.cursor_at_first_line:
            edge = True
        else:
            edge = direction > 0 and bool(self._after) and self.cursor_at_last_line
        if edge and select:
            self._widen(*(WINDOW, 0) if direction < 0 else (0, WINDOW))
        elif edge:
            self.go_window()

    def go_window(self) -> None:
        """Move the window so that the cursor is in its middle."""
        place, whole = self.place, self.whole
        start, end = window_around(whole, place)
        self._before, self._after = whole[:start], whole[end:]
        self._change(whole[start:end])
        self.go(place)

    def _widen(self, before: int = 0, after: int = 0) -> None:
        """Extend the window by at least so many characters before and after, up to whole paragraphs.

        The selection is kept.
        """
        index = self._lines.get_index_from_location
        start, end = (len(self._before) + index(place) for place in self.selection)
        whole = self.whole
        first, last = len(self._before), len(whole) - len(self._after)
        if before:
            first = whole.rfind("\n", 0, max(0, first - before)) + 1
        if after:
            last = whole.find("\n", last + after) + 1 or len(whole)
        self._before, self._after = whole[:first], whole[last:]
        self._change(whole[first:last])
        location = self._lines.get_location_from_index
        self.selection = Selection(location(start - first), location(end - first))
