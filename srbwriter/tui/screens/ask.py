"""One question and one line for the answer. Knows nothing of what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from srbwriter.tui.keeper import Keeper
from srbwriter.tui.screens.push import leave

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft


class Ask(ModalScreen[str | None]):
    """Dismissed with the answer, or None for escape.

    With a ``draft`` the words are safe while the question is open. Whoever takes the answer drops it then.
    """

    DEFAULT_CSS = """
    Ask { align: center bottom; background: $background 0%; }
    Ask Vertical { width: 100%; height: auto; background: $panel; padding: 0 1; }
    Ask Static { color: $text-muted; height: auto; }
    Ask Input { background: $background; }
    """

    def __init__(
        self, question: str, answer: str = "", select: bool = False, draft: Draft | None = None
    ) -> None:
        super().__init__()
        self._keeper = Keeper(self, draft)
        self._question, self._answer, self._select = question, answer, select

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(self._answer, compact=True, select_on_focus=self._select)

    def on_unmount(self) -> None:
        self._keeper.interrupted()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if event.value != self._answer:
            self._keeper.typed(event.value)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        self._keeper.end(drop=False)
        leave(self, event.value)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self._keeper.end(drop=True)
            leave(self, None)
