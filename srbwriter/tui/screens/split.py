"""Where a node is to be cut in two: its text, and a cursor. Knows no story."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.document._document import Document
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from srbwriter.tui.screens.push import leave

_KEYS = "enter cuts where the cursor stands; what follows it becomes a node of its own · esc goes back"


class SplitAt(ModalScreen["int | None"]):
    """Dismissed with a character of ``text`` that is neither its beginning nor its end, or None."""

    DEFAULT_CSS = """
    SplitAt { align: center middle; background: $background 60%; }
    SplitAt Vertical {
        width: 84; max-width: 96%; height: 70%; background: $surface; border: round $primary; padding: 0 1;
    }
    SplitAt .title { color: $primary; text-style: bold; height: auto; }
    SplitAt .about { color: $text-muted; height: auto; }
    SplitAt TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._words = text

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("Split", classes="title")
            yield TextArea(self._words, soft_wrap=True, show_line_numbers=False, read_only=True)
            yield Static(_KEYS, classes="about", markup=False)

    def on_mount(self) -> None:
        self.query_one(TextArea).focus()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            leave(self)
        elif event.key == "enter":
            event.stop()
            area = self.query_one(TextArea)
            at = cast(Document, area.document).get_index_from_location(area.cursor_location)
            if 0 < at < len(self._words):
                leave(self, at)
            else:
                self.notify("Nothing stands on one side of the cursor.", markup=False)
