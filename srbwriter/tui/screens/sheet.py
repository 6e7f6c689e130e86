"""A sheet of paper for a longer text: memory, a note, a branch before it is picked. Knows no session."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea


class Sheet(ModalScreen[str | None]):
    """Dismissed with the text for ctrl+s, or None for escape."""

    BINDINGS = [Binding("ctrl+s", "keep", "keep", priority=True)]
    DEFAULT_CSS = """
    Sheet { align: center middle; background: $background 60%; }
    Sheet Vertical {
        width: 84; max-width: 96%; height: 70%; background: $surface; border: round $primary; padding: 0 1;
    }
    Sheet .title { color: $primary; text-style: bold; height: auto; }
    Sheet .about { color: $text-muted; height: auto; }
    Sheet TextArea { height: 1fr; border: none; background: $background; margin: 1 0; }
    """

    def __init__(self, title: str, text: str = "", about: str = "") -> None:
        super().__init__()
        self._title, self._text, self._about = title, text, about

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, classes="title", markup=False)
            if self._about:
                yield Static(self._about, classes="about", markup=False)
            yield TextArea(self._text, soft_wrap=True, show_line_numbers=False)
            yield Static("ctrl+s keeps it · esc goes back", classes="about", markup=False)

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def action_keep(self) -> None:
        self.dismiss(self.query_one(TextArea).text)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self.dismiss(None)
