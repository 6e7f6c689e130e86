"""The text widget of the app: the story, panes of branches, reading, tokens, memory, notes.

A text is one string, and every place is an offset in it. A paragraph is wrapped when it is seen, and the
view is anchored at (start of a paragraph, row in it), so a key costs the same in a long book as on the first
page. A list of rows is painted; a change repaints those that differ.

A paragraph is shown with as many characters as it has: what is not to be seen, such as the asterisks of
``*emphasis*`` away from the cursor, is replaced by a character without width. So places need no mapping.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import regex
from rich.cells import cell_len
from rich.segment import Segment
from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.style import Style
from textual.widget import Widget

from srbwriter import unspaced
from srbwriter.story.spans import edit_between
from srbwriter.tui.commands import Keyed
from srbwriter.tui.driver import is_text

if TYPE_CHECKING:
    from textual.app import App

Span = tuple[int, int]
Anchor = tuple[int, int]
"""The start of a paragraph, and a row of it."""
Mark = tuple[int, int, str]
"""A span of the text, and the name of its style in :data:`STYLES`."""

STYLES = {
    "model": "italic $secondary", "edited": "bold italic $accent", "imported": "$text-muted",
    "tint-1": "italic $text-success", "tint-2": "bold $text-warning", "tint-3": "bold italic $text-error",
    "unknown": "$text-muted", "heading": "bold $primary", "scene": "$text-muted", "dim": "$text-muted",
    "strong": "bold", "emphasis": "italic", "taken": "underline", "note": "italic $text-muted",
    "match": "underline $text-warning", "match-here": "bold reverse $text-warning",
    "selection": "on $primary 40%", "cursor": "reverse", "place": "underline",
    "head": "$text-muted on $panel", "head-writing": "$text-accent on $panel",
    "head-failed": "$text-error on $panel", "head-chosen": "bold reverse $primary",
    "cap": "bold reverse $accent",
}  # fmt: skip
"""How marks look, as Textual's styles."""

# Scripts written without spaces, and emoji: a row may end before and after each of what is seen.
_WIDE = (
    "\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f000-\U0001faff"
)
_PIECE = regex.compile(rf"\s+|(?=[{_WIDE}])\X|[^\s{_WIDE}]+")
_CLUSTER = regex.compile(r"\X")
_BOUNDARY = re.compile(r"(?<=\W)(?=\w)|(?<=\w)(?=\W)")
_EMPHASIS = re.compile(r"(?<![\w*])(\*{1,2})(?=[^\s*])([^*\n]+?)(?<=[^\s*])\1(?![\w*])")
_HEADING = re.compile(r"#{1,6}[ \t]+(?=\S)")

_UNSEEN = "\u200b"
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]")  # which a terminal would obey
_WHEEL_ROWS = 3
_MOST_WRAPPED = 2_000  # paragraphs whose rows are remembered
_FAR = 64  # characters before the cursor in which the last of what is seen begins


def wrap(text: str, width: int, start: int = 0) -> Iterator[int]:
    """Yield where rows of ``text`` begin behind the row that begins at ``start``; ``width`` is in cells."""
    row, used = start, 0
    for piece in _PIECE.finditer(text, start):
        word, at = piece[0], piece.start()
        cells = cell_len(word)
        if word.isspace():  # spaces may exceed the width rather than start the next row
            used += cells
            continue
        if at > row and used + cells > width:
            yield at
            row, used = at, 0
        if cells <= width:
            used += cells
            continue
        for seen in _CLUSTER.finditer(word):
            cells = cell_len(seen[0])
            if used + cells > width and at + seen.start() > row:
                yield (row := at + seen.start())
                used = 0
            used += cells


def rewrap(old: Sequence[int], text: str, width: int, start: int) -> list[int]:
    """Return the rows of ``text``, which is as it was up to ``start``; ``old`` are the rows before that.

    What stands before wraps as before, so a key at the end of a long paragraph costs no more than of a short
    one.
    """
    rows = list(old[: max(1, bisect_right(old, start) - 2)])  # a shortened word may move up by a row
    return [*rows, *wrap(text, width, rows[-1])]


def drawable(text: str) -> str:
    """Return ``text`` as it may be sent to a terminal, as long as before."""
    return _CONTROL.sub(lambda found: " " if found[0] == "\t" else _UNSEEN, text)


def word_step(line: str, column: int, direction: int) -> int:
    """Return where a step by a word goes from ``column`` of ``line``, right (1) or left (-1)."""
    if direction > 0:
        first = column + len(line[column:]) - len(line[column:].lstrip())
        usual = next((found.start() for found in _BOUNDARY.finditer(line, first + 1)), len(line))
    else:
        first = len(line[:column].rstrip())
        usual = max((b.start() for b in _BOUNDARY.finditer(line[:column]) if b.start() < first), default=0)
    if line.isascii() or not unspaced.CHARACTER.search(line):
        return usual
    known = unspaced.words(line)
    if direction < 0:
        start = max((start for start, end in known if start < first <= end), default=None)
        return max([usual, *(end for _, end in known if end < first)]) if start is None else start
    end = next((end for start, end in known if start <= first < end), None)
    return min([usual, *(start for start, _ in known if start > first)]) if end is None else end


class _Row(NamedTuple):
    """One row as it is painted: ``marks`` are of ``words``; ``here`` is whether the cursor is in it."""

    place: Anchor
    start: int  # in the text
    end: int
    words: str
    marks: tuple[Mark, ...]
    here: bool = False


def _both(keys: str, where: str, words: str) -> list[BindingType]:
    """Return the binding of a movement, and of the selection that the same keys make with shift."""
    with_shift = ",".join(re.sub(r"([^+]+)$", r"shift+\1", key) for key in keys.split(","))
    return [
        Binding(keys, f"move('{where}')", words, show=False),
        Binding(with_shift, f"move('{where}', True)", f"{words}, selecting", show=False),
    ]


class Prose(Keyed, Widget, can_focus=True):
    """A text with a cursor. Without the focus, a line below a character shows the cursor's place."""

    ALLOW_SELECT = False  # the widget selects by itself, also with keys
    BINDINGS: ClassVar[list[BindingType]] = [
        *_both("left", "left", "left"),
        *_both("right", "right", "right"),
        *_both("up", "up", "up"),
        *_both("down", "down", "down"),
        *_both("ctrl+left,alt+left", "word_left", "a word left"),
        *_both("ctrl+right,alt+right", "word_right", "a word right"),
        *_both("home,ctrl+a", "row_start", "to the row's beginning"),
        *_both("end,ctrl+e", "row_end", "to the row's end"),
        *_both("ctrl+up,alt+up", "paragraph_up", "a paragraph up"),
        *_both("ctrl+down,alt+down", "paragraph_down", "a paragraph down"),
        *_both("pageup", "page_up", "a page up"),
        *_both("pagedown", "page_down", "a page down"),
        *_both("ctrl+home", "start", "to the beginning"),
        *_both("ctrl+end", "end", "to the end"),
        Binding("backspace", "delete('left')", "delete left", show=False),
        Binding("delete,ctrl+d", "delete('right')", "delete right", show=False),
        Binding("ctrl+w,alt+backspace,ctrl+backspace", "delete('word_left')", "a word left", show=False),
        Binding("ctrl+delete,alt+delete", "delete('word_right')", "delete a word right", show=False),
        Binding("ctrl+u", "delete('row_start')", "delete to the row's beginning", show=False),
        Binding("ctrl+k", "delete('row_end')", "delete to the row's end", show=False),
        Binding("f7", "select_all", "select all", show=False),
        Binding("ctrl+c", "copy", "copy", show=False),
        Binding("ctrl+x", "cut", "cut", show=False),
        Binding("ctrl+v", "paste", "paste", show=False),
        Binding("ctrl+z", "undo", "undo", show=False),
        Binding("ctrl+y", "redo", "redo", show=False),
    ]  # fmt: skip
    DEFAULT_CSS = """
    Prose { width: 1fr; height: 1fr; background: $background; color: $foreground; }
    """

    CURSOR: ClassVar[bool] = True
    """Whether the cursor is shown."""
    TOP_ROWS: ClassVar[int] = 0
    """Rows above the text; see :meth:`paint_top`."""

    class Changed(Message):
        """The writer changed the text."""

        def __init__(self, prose: Prose) -> None:
            self.prose, self.text = prose, prose.text
            super().__init__()

        @property
        def control(self) -> Prose:
            return self.prose

    if TYPE_CHECKING:

        @property
        def app(self) -> App[None]: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def __init__(
        self, text: str = "", *, read_only: bool = False, placeholder: str = "", id: str | None = None
    ) -> None:
        super().__init__(id=id)
        self.text, self.read_only, self.placeholder = text, read_only, placeholder
        self.cursor = self.origin = 0
        """The places between which the text is selected."""
        self.begin = 0
        """The first character that is shown."""
        self.follow = False
        """Whether the end of the text is kept in view."""
        self.typewriter = False
        """Whether the cursor's row stays in the middle."""
        self.marks_of: Callable[[int, int], Iterable[Mark]] = lambda start, end: ()
        """Returns the marks of a span of the text; later ones are painted over earlier ones."""
        self._top: Anchor = (0, 0)
        self._goal: int | None = None  # the column that moves up and down keep to
        self._rows: list[_Row] = []
        self._wrapped: dict[str, list[int]] = {}  # rows by what is painted
        self._seen: dict[tuple[int, bool], tuple[str, list[Mark]]] = {}  # by the start of a paragraph
        self._room = Size(0, 0)  # that the text is laid out for
        self._styles_of: dict[str, Style] = {}
        self._past: list[tuple[str, int]] = []  # texts and cursors to undo to
        self._future: list[tuple[str, int]] = []
        self._typed_at = -1  # the end of the last word that was typed
        self._dragged = False

    # ---- layout

    @property
    def _width(self) -> int:
        return max(1, self._room.width - self.CURSOR)  # the cursor may be behind the last character

    @property
    def _height(self) -> int:
        return max(1, self._room.height - self.TOP_ROWS)

    def _paragraph(self, place: int) -> Span:
        start = max(self.begin, self.text.rfind("\n", 0, place) + 1)
        end = self.text.find("\n", place)
        return start, end if end >= 0 else len(self.text)

    def _shown(self, start: int, end: int) -> tuple[str, list[Mark]]:
        """Return a paragraph as it is painted, with the marks of its own headings and emphasis."""
        source = not self.read_only and start <= self.cursor <= end
        if (known := self._seen.get((start, source))) is not None:
            return known
        words = drawable(self.text[start:end])
        marks: list[Mark] = []
        if heading := _HEADING.match(words):
            marks.append((start, end, "heading"))
            if not source:
                words = _UNSEEN * heading.end() + words[heading.end() :]
        if "*" in words:
            for found in _EMPHASIS.finditer(words):
                name = "emphasis" if len(found[1]) == 1 else "strong"
                marks.append((start + found.start(), start + found.end(), name))
                if not source:
                    signs = _UNSEEN * len(found[1])
                    words = f"{words[: found.start()]}{signs}{found[2]}{signs}{words[found.end() :]}"
        if len(self._seen) >= _MOST_WRAPPED:
            self._seen.clear()
        self._seen[start, source] = words, marks
        return words, marks

    def _breaks(self, words: str) -> list[int]:
        """Return where the rows of a paragraph begin."""
        if (known := self._wrapped.get(words)) is None:
            if len(self._wrapped) >= _MOST_WRAPPED:
                self._wrapped.clear()
            known = self._wrapped[words] = [0, *wrap(words, self._width)]
        return known

    def _layout(self, start: int) -> tuple[int, str, list[int]]:
        """Return the end, words and rows of the paragraph at ``start``."""
        end = self._paragraph(start)[1]
        words = self._shown(start, end)[0]
        return end, words, self._breaks(words)

    def _shift(self, place: Anchor, rows: int) -> Anchor:
        """Return the place so many rows below or above, as far as there is text."""
        start, row = place
        while row + rows < 0 and start > self.begin:
            rows += row
            start = self._paragraph(start - 1)[0]
            row = len(self._layout(start)[2])
        if rows <= 0:
            return start, max(0, row + rows)
        while True:
            end, _, breaks = self._layout(start)
            count = len(breaks)
            if row + rows < count or end >= len(self.text):
                return start, min(row + rows, count - 1)
            rows -= count - row
            start, row = end + 1, 0

    def _row_of(self, place: int) -> Anchor:
        place = max(place, self.begin)
        start, _ = self._paragraph(place)
        return start, bisect_right(self._layout(start)[2], place - start) - 1

    def _span(self, place: Anchor) -> Span:
        """Return the characters of a row."""
        start, row = place
        end, _, breaks = self._layout(start)
        return start + breaks[row], start + breaks[row + 1] if row + 1 < len(breaks) else end

    def _column(self, place: int) -> int:
        start = self._paragraph(place)[0]
        _, words, breaks = self._layout(start)
        row = breaks[bisect_right(breaks, place - start) - 1]
        return min(cell_len(words[row : place - start]), self._width)

    def _place_at(self, row: Anchor, column: int) -> int:
        """Return the place in a row that is nearest to a column of cells."""
        start, end = self._span(row)
        paragraph, last = self._paragraph(start)
        words = self._layout(paragraph)[1][start - paragraph : end - paragraph]
        place, used = start, 0
        for seen in _CLUSTER.finditer(words):
            behind = start + seen.end()
            used += cell_len(seen[0])
            if used > column or (behind == end < last):  # behind the last space the next row begins
                break
            place = behind
        return place

    def fit(self) -> None:
        """Lay out the text for the size that there is now; the cursor stays in view if it was."""
        if self.content_size == self._room or not self.content_size:
            return
        seen = not self._room or self._is_visible(self._row_of(self.cursor))
        first = self._span(self._top)[0] if self._room else self.begin
        rows, self._room = self._top[1], self.content_size
        self._wrapped.clear()
        start = self._paragraph(first)[0]
        self._top = (start, 0) if not rows and start == first else self._row_of(first)
        if seen and self.CURSOR:
            self.show_cursor()
        else:
            self.update()

    def _is_visible(self, row: Anchor) -> bool:
        return self._top <= row <= self._shift(self._top, self._height - 1)

    def update(self, since: int | None = None) -> None:
        """Paint the rows that have changed; those that end before ``since`` have not."""
        if not self._room:
            return
        self._clamp()
        before, self._rows = self._rows, []
        place, kept = self._top, since is not None
        while len(self._rows) < self._height:
            old = before[len(self._rows)] if kept and len(self._rows) < len(before) else None
            kept = old is not None and old.place == place and old.end < (since or 0)
            start, row = place
            if kept and old is not None:
                self._rows.append(old)
                end, _, breaks = self._layout(start)
            else:
                end, words, breaks = self._layout(start)
                self._rows.append(self._row(place, end, words, breaks))
            if row + 1 < len(breaks):
                place = start, row + 1
            elif end < len(self.text):
                place = end + 1, 0
            else:
                break
        changed = [
            Region(0, y + self.TOP_ROWS, self._room.width, 1)
            for y in range(max(len(before), len(self._rows)))
            if before[y : y + 1] != self._rows[y : y + 1]
        ]
        if changed:
            self.refresh(*changed)
        if self.has_focus and self.CURSOR:
            row = next((y for y, row in enumerate(self._rows) if row.here), 0)
            at = Offset(self._column(self.cursor), row + self.TOP_ROWS)
            self.app.cursor_position = self.content_region.offset + at

    def _clamp(self) -> None:
        """Show no rows behind the end of the text or of the first paragraph, as long as there are others."""
        breaks = self._layout(self._top[0])[2]
        self._top = self._top[0], min(self._top[1], len(breaks) - 1)
        last = self._row_of(len(self.text))
        if self.follow:
            self._top = self._shift(last, 1 - self._height)
        elif not self.typewriter and self._top > (lowest := self._shift(last, 1 - self._height)):
            self._top = lowest

    def _row(self, place: Anchor, end: int, words: str, breaks: list[int]) -> _Row:
        start, row = place
        first, last = breaks[row], breaks[row + 1] if row + 1 < len(breaks) else len(words)
        shown = words[first:last] if row + 1 == len(breaks) else words[first:last].rstrip(" ")
        first, last = start + first, start + last
        marks = [*self._shown(start, end)[1], *self.marks_of(first, last)]
        low, high = self.selection
        if low < high:
            marks.append((low, high, "selection"))
        here = self.CURSOR and (first <= self.cursor < last or (self.cursor == last == end))
        if here:
            seen = _CLUSTER.match(self.text, self.cursor, end)
            stop = seen.end() if seen is not None else self.cursor + 1
            shown += " " * (self.cursor - first + 1 - len(shown))
            marks.append((self.cursor, stop, "cursor" if self.has_focus else "place"))
        inside = tuple(
            (max(0, low - first), min(len(shown), high - first), name)
            for low, high, name in marks
            if low < first + len(shown) and high > first
        )
        return _Row(place, first, last, shown, inside, here)

    # ---- painting

    def style(self, name: str) -> Style:
        """Return what a style of :data:`STYLES` changes; "" is how the text itself looks."""
        if name not in self._styles_of:
            found = Style.parse(STYLES[name], self.app.theme_variables) if name else self.visual_style
            self._styles_of[name] = found
        return self._styles_of[name]

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles_of.clear()

    def render_lines(self, crop: Region) -> list[Strip]:
        self.fit()  # a new margin sends no event
        return super().render_lines(crop)

    def paint_top(self, y: int) -> Strip:
        """Paint a row above the text."""
        return Strip.blank(self._room.width)

    def render_line(self, y: int) -> Strip:
        width, base = self.content_size.width, self.style("")
        if y < self.TOP_ROWS:
            return self.paint_top(y)
        y -= self.TOP_ROWS
        if not self.text[self.begin :] and not y and self.placeholder:
            words = f"{self.placeholder} "
            marks: tuple[Mark, ...] = ((0, len(words), "note"),)
            marks += ((0, 1, "cursor"),) if self.CURSOR and self.has_focus else ()
            row = _Row((0, 0), 0, 0, words, marks)
        elif y < len(self._rows):
            row = self._rows[y]
        else:
            return Strip.blank(width, base.rich_style)
        edges = sorted({0, len(row.words), *(edge for mark in row.marks for edge in mark[:2])})
        segments: list[Segment] = []
        for low, high in pairwise(edges):
            style = sum((self.style(name) for start, end, name in row.marks if start <= low < end), base)
            segments.append(Segment(row.words[low:high].replace(_UNSEEN, ""), style.rich_style))
        return Strip(segments).adjust_cell_length(width, base.rich_style)

    # ---- text

    @property
    def selection(self) -> Span:
        """The selected characters, in order."""
        return min(self.cursor, self.origin), max(self.cursor, self.origin)

    def show(self, text: str, cursor: int | None = None) -> None:
        """Show another text, without :class:`Changed`; put the cursor at ``cursor``, by default the end."""
        if text != self.text:
            self.put(*edit_between(self.text, text))
        self._past, self._future = [], []
        self.move_to(len(text) if cursor is None else cursor)

    def put(self, start: int, end: int, words: str) -> None:
        """Replace characters ``start`` to ``end``; visible rows stay where they are."""
        first, last = self._paragraph(start)
        rows = self._wrapped.get(self._shown(first, last)[0]) if self._room else None
        grown = len(words) - (end - start)
        self.text = f"{self.text[:start]}{words}{self.text[end:]}"
        self._seen.clear()
        self._typed_at = -1
        for name in ("cursor", "origin"):
            if (place := getattr(self, name)) > start:
                setattr(self, name, max(start + len(words), place + grown))
        if self._top[0] >= end and self._top[0] > start:
            self._top = self._top[0] + grown, self._top[1]
        elif self._top[0] > start:
            self._top = self._row_of(start)
        if rows is not None and end <= last and "\n" not in words:
            shown = self._shown(first, last + grown)[0]
            if shown not in self._wrapped:
                self._wrapped[shown] = rewrap(rows, shown, self._width, start - first)

    def replace(self, start: int, end: int, words: str) -> None:
        """Replace characters as the writer does: the cursor goes behind them, and it can be undone."""
        if self.read_only:
            self.refuse()
            return
        joins = self._typed_at == start == end and not words.isspace()
        if not joins:
            self.remember()
        self.put(start, end, words)
        self._typed_at = start + len(words) if end == start else -1
        self.cursor = self.origin = start + len(words)
        self._goal = None
        self.edited(start, end, words)
        self.show_cursor()

    def remember(self) -> None:
        """Keep the text as it is now, to undo to."""
        self._past.append((self.text, self.cursor))
        self._future = []

    def edited(self, start: int, end: int, words: str) -> None:
        """Tell of an edit by the writer."""
        self.post_message(self.Changed(self))

    def refuse(self) -> None:
        """Tell a writer who types that the text is read-only."""

    def type_words(self, words: str) -> None:
        """Put words in the place of the selection, or at the cursor."""
        self.replace(*self.selection, words)

    def action_undo(self) -> None:
        self._step_back(self._past, self._future)

    def action_redo(self) -> None:
        self._step_back(self._future, self._past)

    def _step_back(self, source: list[tuple[str, int]], other: list[tuple[str, int]]) -> None:
        if source and not self.read_only:
            other.append((self.text, self.cursor))
            past, future, (text, cursor) = self._past, self._future, source.pop()
            self.show(text, cursor)
            self._past, self._future = past, future
            self.post_message(self.Changed(self))

    # ---- cursor

    def move_to(self, place: int, select: bool = False) -> None:
        """Put the cursor at a place and show it; with ``select``, what it passes is selected."""
        self._typed_at, self._goal = -1, None
        self.cursor = max(self.begin, min(place, len(self.text)))
        if not select:
            self.origin = self.cursor
        self.show_cursor()

    def select(self, start: int, end: int, covered: int = 0) -> None:
        """Select a span and show it; ``covered`` rows at the bottom cannot be seen."""
        self.origin = start
        self.cursor = max(start, end)
        self.show_cursor(covered)

    def show_cursor(self, covered: int = 0) -> None:
        """Scroll so that the cursor can be seen, and paint what has changed."""
        if not self._room:
            return
        row = self._row_of(self.cursor)
        if self.typewriter:
            self._top = self._shift(row, -(self._height // 2))
        elif row < self._top:
            self._top = self._shift(row, -(self._height // 2)) if covered else row
        elif row > self._shift(self._top, self._height - 1 - covered):
            self._top = self._shift(row, -(self._height // 2 if covered else self._height - 1))
        self.update()

    def scroll_to_character(self, place: int) -> None:
        """Scroll so that the row of ``place`` is the first that is visible."""
        self._top = self._row_of(place)
        self.follow = False
        self.update()

    @property
    def first_visible(self) -> int:
        """The first visible character."""
        return self._span(self._top)[0] if self._room else self.begin

    @property
    def ends_below(self) -> bool:
        """Whether the end of the text is below the visible rows."""
        return not self._is_visible(self._row_of(len(self.text)))

    def scroll_rows(self, rows: int) -> None:
        """Scroll; the cursor stays where it is."""
        self.follow = False
        self._top = self._shift(self._top, rows)
        self.update()

    def action_move(self, where: str, select: bool = False) -> None:
        """Move the cursor."""
        low, high = self.selection
        if low < high and not select and where in ("left", "right"):
            self.move_to(low if where == "left" else high)
            return
        goal = self._goal if self._goal is not None else self._column(self.cursor)
        self.move_to(self._target(where, goal), select)
        if where in ("up", "down", "page_up", "page_down"):
            self._goal = goal

    def _target(self, where: str, goal: int) -> int:
        """Return where a movement leads; ``goal`` is the column that rows are entered at."""
        place, text = self.cursor, self.text
        start, end = self._paragraph(place)
        match where:
            case "left":
                before = text[max(start, place - _FAR) : place]
                return place - len(_CLUSTER.findall(before)[-1]) if before else place - 1
            case "right":
                seen = _CLUSTER.match(text, place, end)
                return seen.end() if seen is not None else place + 1
            case "word_left" | "word_right":
                line, edge = text[start:end], start if where == "word_left" else end
                step = 1 if where == "word_right" else -1
                return place + step if place == edge else start + word_step(line, place - start, step)
            case "row_start":
                return self._span(self._row_of(place))[0]
            case "row_end":
                return self._place_at(self._row_of(place), 10**6)
            case "up" | "down" | "page_up" | "page_down":
                page = self._height if where.startswith("page") else 1
                here = self._row_of(place)
                there = self._shift(here, page if where.endswith("down") else -page)
                if page > 1:
                    self._top = self._shift(self._top, page if where.endswith("down") else -page)
                if there == here:
                    return self.begin if where.endswith("up") else len(text)
                return self._place_at(there, goal)
            case "paragraph_up":
                place -= place == start
                while place > 0 and not text[slice(*self._paragraph(place))].strip():
                    place = self._paragraph(place)[0] - 1
                return self._paragraph(max(0, place))[0]
            case "paragraph_down":
                found = re.compile(r"\n[^\S\n]*(?=\S)").search(text, end)
                return text.rfind("\n", 0, found.end()) + 1 if found else len(text)
            case "start":
                return self.begin
            case _:
                return len(text)

    def action_delete(self, where: str) -> None:
        """Delete the selection, or as far as a movement would go."""
        low, high = self.selection
        if low == high:
            target = self._target(where, 0)
            if where == "row_end" and target == self.cursor:
                target += 1
            low, high = sorted((self.cursor, max(self.begin, min(target, len(self.text)))))
        if low < high or self.read_only:
            self.replace(low, high, "")

    def action_select_all(self) -> None:
        self.origin = self.begin
        self.move_to(len(self.text), select=True)

    # ---- clipboard and keys

    @property
    def selected(self) -> str:
        """The selected text."""
        return self.text[slice(*self.selection)]

    def action_copy(self) -> None:
        if not self.selected:
            raise SkipAction
        self.app.copy_to_clipboard(self.selected)

    def action_cut(self) -> None:
        self.action_copy()
        self.action_delete("left")

    def action_paste(self) -> None:
        self.type_words(self.app.clipboard)

    def check_consume_key(self, key: str, character: str | None = None) -> bool:
        return not self.read_only and is_text(events.Key(key, character))

    def on_key(self, event: events.Key) -> None:
        words = "\n" if event.key == "enter" else event.character if is_text(event) else None
        if words and self.CURSOR:
            event.stop()
            event.prevent_default()
            self.type_words(words)

    def on_paste(self, event: events.Paste) -> None:
        if self.CURSOR:
            event.stop()
            self.type_words(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    # ---- mouse and focus

    def _under(self, event: events.MouseEvent) -> int:
        x, y = event.get_content_offset_capture(self)
        y = min(y - self.TOP_ROWS, len(self._rows) - 1)
        row = self._shift(self._top, y) if y < 0 else self._rows[y].place
        return self._place_at(row, x)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if self._rows and event.button == 1:
            self.move_to(self._under(event), select=event.shift)
            self._dragged = True
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged:
            self.move_to(self._under(event), select=True)

    def on_mouse_up(self) -> None:
        self._dragged = False
        self.release_mouse()

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.CURSOR:
            start, end = self._paragraph(self.cursor)
            line, at = self.text[start:end], self.cursor - start
            first = at if at == 0 or not line[at - 1].isalnum() else word_step(line, at, -1)
            self.select(start + first, start + word_step(line, at, 1))
        elif event.chain == 3 and self.CURSOR:
            self.select(*self._paragraph(self.cursor))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.scroll_rows(-_WHEEL_ROWS)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.scroll_rows(_WHEEL_ROWS)

    def on_resize(self) -> None:
        self.fit()

    def watch_has_focus(self, _has_focus: bool) -> None:
        super().watch_has_focus(_has_focus)
        self.update()
