"""One-line widgets: the status line, the key line, the tabs of branches, a filter.

They only draw what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from textual import events
from textual.content import Content
from textual.keys import format_key, key_to_character
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Static

from srbwriter.tui.commands import Keyed, action
from srbwriter.tui.widgets.wrap import Wrapper

_BAR = 16
_GAP = "  ·  "
_MOST_ROWS = 6


def bar(share: float, width: int = _BAR) -> str:
    """Return a progress bar made of characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


class StatusLine(Widget):
    """The status line. ``mode`` says where keys go.

    If the line is too short, ``left`` parts are dropped first, then ``right`` parts, from the last one on.
    The first part of each side stays; the first left one is cut if necessary. A ``message`` replaces all
    parts but the first on the right and may take several rows. With the class ``-trouble`` the first part on
    the right is shown as an error.
    """

    COMPONENT_CLASSES = {"status--mode", "status--message", "status--error", "status--unsaved"}
    DEFAULT_CSS = """
    StatusLine {
        height: 1; width: 1fr; background: $panel; color: $text-muted;
        .status--mode { background: $primary; color: $background; text-style: bold; }
        .status--message { color: $foreground; }
        .status--error { color: $text-error; text-style: bold; }
        .status--unsaved { color: $error; text-style: bold; }
    }
    """

    mode: reactive[str] = reactive("")
    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())
    message: reactive[str] = reactive("")
    error: reactive[bool] = reactive(False)

    @property
    def line(self) -> str:
        """The text of all rows."""
        return "\n".join(self._rows())

    @property
    def _badge(self) -> str:
        return f" {self.mode} " if self.mode else ""

    def _rows(self) -> list[str]:
        return self._message_rows() if self.message else [f"{self._badge}{self._usual()}"]

    def _usual(self) -> str:
        width = self.size.width - cell_len(self._badge)
        left, right = list(self.left), list(self.right)
        while True:
            one, other = _GAP.join(left), _GAP.join(right)
            room = width - cell_len(one) - cell_len(other) - 3
            if room >= 0:
                return f" {one}{' ' * (room + 1)}{other} "
            if len(left) <= 1 and len(right) <= 1:
                kept = max(0, cell_len(one) + room - 1)
                return f" {set_cell_size(one, kept)}… {other} "
            (left if len(left) > 1 else right).pop()

    def _message_rows(self) -> list[str]:
        """Return the rows of the message after the badge; the save state comes at the end of the last row."""
        indent, kept = cell_len(self._badge) + 1, self.right[0] if self.right else ""
        wrapped = Wrapper(max(10, self.size.width - indent - 1))
        wrapped.reset(self.message)
        rows = [wrapped.shown(row).rstrip() for row in range(len(wrapped.lines))]
        if not kept:
            pass
        elif indent + cell_len(rows[-1]) + cell_len(kept) + 3 <= self.size.width:
            room = self.size.width - indent - cell_len(rows[-1]) - cell_len(kept) - 1
            rows[-1] = f"{rows[-1]}{' ' * room}{kept}"
        elif len(rows) > 1 or self.mode:
            rows.append(f"{' ' * max(0, self.size.width - indent - cell_len(kept) - 1)}{kept}")
        first, *others = rows[:_MOST_ROWS]
        return [f"{self._badge} {first}", *(f"{' ' * indent}{row}" for row in others)]

    def watch_message(self) -> None:
        self.set_class(bool(self.message), "-speaking")
        self._fit()

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        rows = len(self._rows()) if self.size.width else 1
        if self.styles.height is None or self.styles.height.value != rows:
            self.styles.height = rows

    def render_line(self, y: int) -> Strip:
        rows, badge = self._rows(), self._badge
        if y >= len(rows):
            return Strip.blank(self.size.width, self.rich_style)
        style = self.rich_style
        if self.message:
            style = self.get_component_rich_style("status--error" if self.error else "status--message")
        row = rows[y].removeprefix(badge) if y == 0 else rows[y]
        segments = [Segment(badge, self.get_component_rich_style("status--mode"))] if y == 0 and badge else []
        saved = self.right[0] if self.right and self.has_class("-trouble") else ""
        before, found, after = row.rpartition(saved) if saved and y == len(rows) - 1 else (row, "", "")
        unsaved = self.get_component_rich_style("status--unsaved")
        parts = (before, style), (found, unsaved), (after, style)
        segments += [Segment(text, own) for text, own in parts if text]
        return Strip(segments).adjust_cell_length(self.size.width, style)


def key_name(key: str) -> str:
    """Return a key as it is shown: ``^n`` for ctrl+n, ``⏎`` for enter."""
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    if key[0] == "f" and key[1:].isdigit():
        return key.upper()
    name = format_key(key)
    sign = key_to_character(key) if name == key else None  # such as é, whose key has a Unicode name
    return sign if sign and sign.isprintable() and sign.strip() else name


_STAYS = (
    "pick_number",
    "",
    "left",
    "take_sentence",
    "menu",
    "generate",
    "back",
    "switch",
    "help",
    "quit",
    "undo",
)
"""Commands whose keys stay longest on a short line, the most important first."""


def fitting(entries: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str, str]]:
    """Return the ``entries`` that fit into ``width`` cells, in order; drop the least important ones."""
    kept = list(entries)
    ranks = {command: rank for rank, command in enumerate(_STAYS)}
    while kept and sum(cell_len(key) + cell_len(label) + 3 for _, key, label in kept) > width:
        kept.remove(max(kept, key=lambda entry: ranks.get(entry[0], len(ranks) + entries.index(entry))))
    return kept


class KeyLine(Widget):
    """The line of keys. ``entries`` are (command id, key, label)."""

    DEFAULT_CSS = """
    KeyLine { height: 1; width: 1fr; background: $background; color: $text-muted; }
    """

    class Pressed(Message):
        def __init__(self, command: str) -> None:
            self.command = command
            super().__init__()

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[tuple[str, str, str]] = []
        self._spans: list[tuple[int, int, str]] = []

    def show(self, entries: list[tuple[str, str, str]]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.refresh()

    def render(self) -> Content:
        parts: list[Content | tuple[str, str]] = []
        self._spans = []
        at = 1
        for command, key, label in fitting(self.entries, self.size.width):
            width = cell_len(key) + 1 + cell_len(label)
            self._spans.append((at, at + width, command))
            parts += [(f" {key}", "bold $foreground"), (f" {label} ", "$text-muted")]
            at += width + 2
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        for start, end, command in self._spans:
            if command and start <= event.x < end:
                self.post_message(self.Pressed(command))


class TabStrip(Widget):
    DEFAULT_CSS = """
    TabStrip { height: 1; width: 1fr; background: $surface; color: $text-muted; display: none; }
    TabStrip.-needed { display: block; }
    """

    class Pressed(Message):
        def __init__(self, index: int) -> None:
            self.index = index
            super().__init__()

    def __init__(self) -> None:
        super().__init__()
        self._labels: list[str] = []
        self._current = 0

    def show(self, labels: Sequence[str], current: int) -> None:
        """Show the labels of all branches and mark the current one."""
        if (list(labels), current) != (self._labels, self._current):
            self._labels, self._current = list(labels), current
            self.refresh()

    def render(self) -> Content:
        parts: list[tuple[str, str]] = []
        for index, label in enumerate(self._labels):
            current = index == self._current
            parts.append((f"[{label}]" if current else f" {label} ", "bold $text-accent" if current else ""))
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        at = 0
        for index, label in enumerate(self._labels):
            at += len(label) + 2
            if event.x < at:
                self.post_message(self.Pressed(index))
                return


_BETWEEN = " · "


class Foot(Static):
    """The keys of a dialog, separated by dots; lines break between entries, not within one."""

    DEFAULT_CSS = "Foot { height: auto; }"

    def __init__(self, words: str, **options: Any) -> None:
        super().__init__(words, markup=False, **options)
        self._words = words

    def on_resize(self, event: events.Resize) -> None:
        self.update("\n".join(_folded(line, self.content_size.width) for line in self._words.split("\n")))


def _folded(line: str, width: int) -> str:
    first, *parts = line.split(_BETWEEN)
    lines = [first]
    for part in parts:
        if cell_len(lines[-1] + _BETWEEN + part) <= width:
            lines[-1] += _BETWEEN + part
        else:
            lines.append(part)
    return "\n".join(lines)


def matches(words: Sequence[str], *texts: str) -> bool:
    """Return whether each of ``words`` (lower case) occurs in one of ``texts``."""
    return all(any(word in text.casefold() for text in texts) for word in words)


class FilterLine(Keyed, Input):
    """A line that filters a list. ``enter`` and ``down`` return to the list, ``escape`` clears the filter."""

    KEYS = "While narrowing"
    DEFAULT_CSS = """
    FilterLine { display: none; background: $panel; padding: 0 1; margin: 0 0 1 0; }
    FilterLine.-open { display: block; }
    """

    def __init__(self, back_to: Callable[[], Widget]) -> None:
        super().__init__(placeholder="narrow …", compact=True)
        self._back_to = back_to
        self.can_focus = False  # a hidden line must not receive keys

    @property
    def words(self) -> list[str]:
        """The words of the filter, in lower case."""
        return self.value.casefold().split()

    def begin(self) -> None:
        self.add_class("-open")
        self.can_focus = True
        self.focus()

    @action("enter,down", "back to the list", priority=False)
    def action_to_found(self) -> None:
        """Go to the matches."""
        self._back_to().focus()

    @action("escape", "all again", priority=False)
    def action_show_all(self) -> None:
        """Clear the filter."""
        self._back_to().focus()
        self.value = ""
        self.remove_class("-open")
        self.can_focus = False
