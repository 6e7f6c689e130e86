"""A form for title, author and language. Knows no session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from srbwriter.story import Properties
from srbwriter.tui.screens.ask import LEFT
from srbwriter.tui.screens.push import leave, on_top

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft

_FIELDS = {
    "title": "Title",
    "author": "Author",
    "language": "Language",
}
"""The fields of :class:`Properties` in their order, and what they are called."""

_HELP = "Books and pages say so. A language is en, de, pt-BR … · tab next · enter keeps it · esc goes back"


class PropertiesForm(ModalScreen[None]):
    """Asks for all three at once.

    ``take`` does with them what they are for; where it says False, the form stays open. ``draft`` keeps what
    is typed safe meanwhile, a line for each field.
    """

    DEFAULT_CSS = """
    PropertiesForm { align: center bottom; background: $background 0%; }
    PropertiesForm Vertical { width: 100%; height: auto; background: $panel; padding: 0 1; }
    PropertiesForm Horizontal { height: 1; }
    PropertiesForm Static { color: $text-muted; height: auto; }
    PropertiesForm .label { width: 10; }
    PropertiesForm Input { width: 1fr; background: $background; }
    """

    def __init__(self, now: Properties, take: Callable[[Properties], bool], draft: Draft) -> None:
        super().__init__()
        self._take = take
        self._answers = [" ".join(words.split()) for words in astuple(now)]
        left = (draft.words or "").split("\n")
        self._interrupted = len(left) == len(_FIELDS)
        if self._interrupted:
            self._answers = left
        self._draft, self._words = draft, "\n".join(self._answers)
        self._closed = False

    def compose(self) -> ComposeResult:
        with Vertical():
            if self._interrupted:
                yield Static(LEFT, markup=False)
            for (field, label), answer in zip(_FIELDS.items(), self._answers, strict=True):
                with Horizontal():
                    yield Static(label, classes="label", markup=False)
                    yield Input(answer, id=field, compact=True, select_on_focus=False)
            yield Static(_HELP, markup=False)

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        words = "\n".join(self._said())
        if words != self._words and not self._closed:  # it hears of its last keys when it has been left
            self._words = words
            self._draft.typed(words)

    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        said = self._said()
        if on_top(self) and self._draft.give("\n".join(said), lambda _: self._take(Properties(*said))):
            self._close()

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and on_top(self):
            event.stop()
            self._draft.drop()
            self._close()

    def _said(self) -> list[str]:
        return [self.query_one(f"#{field}", Input).value for field in _FIELDS]

    def _close(self) -> None:
        if on_top(self):
            self._closed = True
            leave(self)
