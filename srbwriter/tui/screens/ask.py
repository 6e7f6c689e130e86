"""One question and one line for the answer. Knows nothing of what is asked."""

from __future__ import annotations

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from srbwriter.tui.screens.push import leave


class Ask(ModalScreen[str | None]):
    """Dismissed with the answer, or None for escape."""

    DEFAULT_CSS = """
    Ask { align: center bottom; background: $background 0%; }
    Ask Vertical { width: 100%; height: auto; background: $panel; padding: 0 1; }
    Ask Static { color: $text-muted; height: auto; }
    Ask Input { background: $background; }
    """

    def __init__(self, question: str, answer: str = "", select: bool = False) -> None:
        super().__init__()
        self._question, self._answer, self._select = question, answer, select

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._answer, compact=True, select_on_focus=self._select)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        leave(self, event.value)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            leave(self, None)
