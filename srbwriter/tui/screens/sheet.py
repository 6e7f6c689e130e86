"""A sheet of paper for a longer text: memory, a note, a branch before it is picked. Knows no session."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from srbwriter.tui.screens.confirm import Confirm
from srbwriter.tui.screens.push import leave, push


class Sheet(ModalScreen[str | None]):
    """Dismissed with the text for ctrl+s, or None for escape; what was changed is never dropped unasked.

    Args:
        title: what the text is.
        text: what it is now.
        about: what it is for, in a line.
        keeps: what ctrl+s does with it, in words that follow the key.
    """

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

    def __init__(self, title: str, text: str = "", about: str = "", keeps: str = "keeps it") -> None:
        super().__init__()
        self._title, self._text, self._about, self._keeps = title, text, about, keeps

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, classes="title", markup=False)
            if self._about:
                yield Static(self._about, classes="about", markup=False)
            yield TextArea(self._text, soft_wrap=True, show_line_numbers=False)
            yield Static(
                f"ctrl+s {self._keeps} · esc goes back, and asks first if you changed something",
                classes="about", markup=False,
            )  # fmt: skip

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def action_keep(self) -> None:
        leave(self, self.query_one(TextArea).text)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            if self.query_one(TextArea).text == self._text:
                leave(self)
            else:
                self._ask()

    def _ask(self) -> None:
        def answered(key: str | None) -> None:
            if key == "s":
                self.action_keep()
            elif key == "d":
                leave(self)

        answers = {"s": self._keeps, "d": "drops what you changed", "escape": "goes on writing"}
        push(self, Confirm(f"{self._title}: you changed the text.", answers), answered)
