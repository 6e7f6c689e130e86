"""A sheet of paper for a longer text: memory, a note, a branch before it is picked. Knows no session."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static, TextArea

from srbwriter.tui.screens.ask import LEFT
from srbwriter.tui.screens.confirm import Confirm
from srbwriter.tui.screens.push import leave, on_top, push

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft


class Sheet(ModalScreen[bool]):
    """Dismissed with whether the text was taken; what was changed is never dropped unasked.

    Args:
        title: what the text is.
        text: what it is now.
        about: what it is for, in a line.
        take: does with the text what ctrl+s is for. Where it says False, the sheet stays open.
        keeps: that, in words that follow the key.
        draft: where the words are safe while the sheet is open.
    """

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
        self, title: str, text: str, about: str, take: Callable[[str], bool], draft: Draft,
        keeps: str = "keeps it",
    ) -> None:
        super().__init__()
        self._title, self._text, self._about, self._take, self._keeps = title, text, about, take, keeps
        left = draft.words
        self._interrupted = left is not None
        self._first = text if left is None else left
        self._draft = draft
        self._said = self._first  # the words that the draft knows
        self._closed = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, classes="title", markup=False)
            yield Static(self._about, classes="about", markup=False)
            if self._interrupted:
                yield Static(LEFT, classes="about", markup=False)
            yield TextArea(self._first, soft_wrap=True, show_line_numbers=False)
            yield Static(
                f"ctrl+s {self._keeps} · esc goes back, and asks first if you changed something",
                classes="about", markup=False,
            )  # fmt: skip

    def on_mount(self) -> None:
        area = self.query_one(TextArea)
        area.move_cursor(area.document.end)
        area.focus()

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        words = event.text_area.text
        if words != self._said and not self._closed:  # it hears of its last keys when it has been left
            self._said = words
            self._draft.typed(words)

    def on_key(self, event: events.Key) -> None:
        """Both keys wait in line behind what was typed before them; a priority binding would not."""
        if event.key == "ctrl+s":
            event.stop()
            self._keep()
        elif event.key == "escape":
            event.stop()
            if self.query_one(TextArea).text == self._text:
                self._drop()
            else:
                self._ask()

    def _keep(self) -> None:
        if not on_top(self):
            return
        if self._draft.give(self.query_one(TextArea).text, self._take) and on_top(self):
            self._closed = True
            leave(self, True)

    def _drop(self) -> None:
        if on_top(self):
            self._closed = True
            self._draft.drop()
            leave(self, False)

    def _ask(self) -> None:
        def answered(key: str | None) -> None:
            if key == "s":
                self._keep()
            elif key == "d":
                self._drop()

        answers = {"s": self._keeps, "d": "drops what you changed", "escape": "goes on writing"}
        push(self, Confirm(f"{self._title}: you changed the text.", answers), answered)
