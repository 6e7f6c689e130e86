"""Where a node is to be cut in two: its text, and a cursor. Knows no story."""

from __future__ import annotations

from typing import cast

from textual import events
from textual.app import ComposeResult
from textual.document._document import Document
from textual.widgets import TextArea

from srbwriter.tui.dialog import Dialog


class SplitAt(Dialog[int]):
    """Dismissed with a character of ``text`` that is neither its beginning nor its end, or None."""

    HEADING = "Split"
    FOOT = "enter cuts where the cursor stands; what follows it becomes a node of its own · esc goes back"

    DEFAULT_CSS = """
    SplitAt > .box { height: 70%; }
    SplitAt TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def content(self) -> ComposeResult:
        yield TextArea(self._text, soft_wrap=True, show_line_numbers=False, read_only=True)

    def on_key(self, event: events.Key) -> None:
        if event.key != "enter":
            return
        event.stop()
        area = self.query_one(TextArea)
        at = cast(Document, area.document).get_index_from_location(area.cursor_location)
        if 0 < at < len(self._text):
            self.close(at)
        else:
            self.notify("Nothing stands on one side of the cursor.")
