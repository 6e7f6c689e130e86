"""One-line widgets: the status line, the key line, the foot of a dialog.

They only draw what they are given.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

_BAR = 16
_GAP = "  ·  "


def bar(share: float, width: int = _BAR) -> str:
    """Return a progress bar made of characters that every terminal has."""
    full = round(max(0.0, min(1.0, share)) * width)
    return "█" * full + "░" * (width - full)


class StatusLine(Widget):
    """The status line. ``mode`` says where keys go.

    If the line is too short, ``left`` parts are dropped first, then ``right`` parts, from the last one on.
    The first part of each side stays; the first left one is cut if necessary. With the class ``-trouble`` the
    first part on the right is shown as an error.
    """

    DEFAULT_CSS = "StatusLine { height: 1; width: 1fr; background: $panel; color: $text-muted; }"

    mode: reactive[str] = reactive("")
    left: reactive[tuple[str, ...]] = reactive(())
    right: reactive[tuple[str, ...]] = reactive(())

    def render(self) -> Content:
        badge = f" {self.mode} " if self.mode else ""
        saved, trouble = (self.right or ("",))[0], self.has_class("-trouble")
        line = self.line(self.size.width - cell_len(badge))
        before, found, after = line.rpartition(saved) if saved else (line, "", "")
        return Content.assemble(
            (badge, "bold reverse $primary"), before,
            (found, "bold $error" if trouble else ""), after,
        )  # fmt: skip

    def line(self, width: int) -> str:
        """Return the parts of both sides in so many cells."""
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


class KeyLine(Widget):
    """The line of keys. ``entries`` are (command id, key, label); those at the end go where room is short."""

    DEFAULT_CSS = "KeyLine { height: 1; width: 1fr; background: $background; color: $text-muted; }"

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[tuple[str, str, str]] = []
        self._ends: dict[int, str] = {}  # the command of each entry by the cell behind it

    def show(self, entries: list[tuple[str, str, str]]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.refresh()

    def render(self) -> Content:
        parts: list[tuple[str, str]] = []
        used, self._ends = 0, {}
        for command, key, label in self.entries:
            used += cell_len(key) + cell_len(label) + 3
            if used > self.size.width:
                break
            self._ends[used] = command
            parts += [(f" {key}", "bold $foreground"), (f" {label} ", "$text-muted")]
        return Content.assemble(*parts)

    async def on_click(self, event: events.Click) -> None:
        if command := next((command for end, command in self._ends.items() if event.x < end), ""):
            await self.run_action(f"screen.run('{command}')")


class Foot(Static):
    """The keys of a dialog, separated by dots; lines break between entries, not within one."""

    DEFAULT_CSS = "Foot { height: auto; }"

    def __init__(self, words: str, **options: Any) -> None:
        super().__init__(words, markup=False, **options)
        self._words = words

    def on_resize(self) -> None:
        parts = " · ".join(part.replace(" ", "\xa0") for part in self._words.split(" · "))
        lines = textwrap.fill(parts, max(8, self.content_size.width), break_on_hyphens=False)
        self.update(lines.replace("\xa0", " "))


def matches(words: Sequence[str], *texts: str) -> bool:
    """Return whether each of ``words`` (lower case) occurs in one of ``texts``."""
    return all(any(word in text.casefold() for text in texts) for word in words)
