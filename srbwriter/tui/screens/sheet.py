"""A sheet of paper for a longer text: memory, a note, a branch before it is picked. Knows no session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from srbwriter.tui.keeper import Keeper
from srbwriter.tui.screens.confirm import Confirm
from srbwriter.tui.screens.push import leave, push

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft

_LEFT = "These words were here when the program last ended, and have not been kept yet."


class Sheet(ModalScreen[str | None]):
    """Dismissed with the text for ctrl+s, or None for escape; what was changed is never dropped unasked.

    Args:
        title: what the text is.
        text: what it is now.
        about: what it is for, in a line.
        keeps: what ctrl+s does with it, in words that follow the key.
        draft: where the words are safe while the sheet is open. Whoever takes the text drops it then.
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

    def __init__(
        self, title: str, text: str = "", about: str = "", keeps: str = "keeps it", draft: Draft | None = None
    ) -> None:
        super().__init__()
        self._title, self._text, self._about, self._keeps = title, text, about, keeps
        self._left = draft.words if draft is not None else None
        self._keeper = Keeper(self, draft)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, classes="title", markup=False)
            if self._about:
                yield Static(self._about, classes="about", markup=False)
            if self._left is not None:
                yield Static(_LEFT, classes="about", markup=False)
            words = self._text if self._left is None else self._left
            yield TextArea(words, soft_wrap=True, show_line_numbers=False)
            yield Static(
                f"ctrl+s {self._keeps} · esc goes back, and asks first if you changed something",
                classes="about", markup=False,
            )  # fmt: skip

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    def on_unmount(self) -> None:
        self._keeper.interrupted()

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        self._keeper.typed(event.text_area.text)

    def action_keep(self) -> None:
        self._keeper.end(drop=False)
        leave(self, self.query_one(TextArea).text)

    def _drop(self) -> None:
        self._keeper.end(drop=True)
        leave(self)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            if self.query_one(TextArea).text == self._text:
                self._drop()
            else:
                self._ask()

    def _ask(self) -> None:
        def answered(key: str | None) -> None:
            if key == "s":
                self.action_keep()
            elif key == "d":
                self._drop()

        answers = {"s": self._keeps, "d": "drops what you changed", "escape": "goes on writing"}
        push(self, Confirm(f"{self._title}: you changed the text.", answers), answered)
