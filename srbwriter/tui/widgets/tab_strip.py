"""One line with every branch of the round, for when not all of them are in view. A click goes to one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


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
        """Labels of all branches, and which is the current one."""
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
