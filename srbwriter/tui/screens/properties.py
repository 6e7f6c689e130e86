"""A form for title, author and language. Knows no session."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Static

from srbwriter.story import Properties
from srbwriter.tui.dialog import Bar
from srbwriter.tui.screens.ask import LEFT
from srbwriter.tui.widgets.line_input import LineInput

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft

_FIELDS = {
    "title": "Title",
    "author": "Author",
    "language": "Language",
}
"""The fields of :class:`Properties` in their order, and what they are called."""

_HELP = "Books and pages say so. A language is en, de, pt-BR … · tab next · enter keeps it · esc goes back"


class PropertiesForm(Bar[None]):
    """Asks for all three at once.

    ``take`` does with them what they are for; where it says False, the form stays open. ``draft`` keeps what
    is typed safe meanwhile, a line for each field.
    """

    FOOT = _HELP
    DEFAULT_CSS = """
    PropertiesForm Horizontal { height: 1; }
    PropertiesForm .label { width: 10; color: $text-muted; }
    PropertiesForm Input { width: 1fr; }
    """

    def __init__(self, now: Properties, take: Callable[[Properties], bool], draft: Draft) -> None:
        super().__init__()
        self._take = take
        self._answers = [" ".join(words.split()) for words in astuple(now)]
        left = (draft.words or "").split("\n")
        if len(left) == len(_FIELDS):
            self._answers, self.heading = left, LEFT
        self._draft, self._words = draft, "\n".join(self._answers)
        self._answered = False

    def content(self) -> ComposeResult:
        for (field, label), answer in zip(_FIELDS.items(), self._answers, strict=True):
            with Horizontal():
                yield Static(label, classes="label", markup=False)
                yield LineInput(answer, id=field, compact=True, select_on_focus=False)

    @on(LineInput.Changed)
    def _typed(self, event: LineInput.Changed) -> None:
        words = "\n".join(self._said())
        if words != self._words and not self._answered:  # it hears of its last keys when it has been left
            self._words = words
            self._draft.typed(words)

    @on(LineInput.Submitted)
    def _submitted(self, event: LineInput.Submitted) -> None:
        said = self._said()
        if self.on_top and self._draft.give("\n".join(said), lambda _: self._take(Properties(*said))):
            self._close()

    def action_close(self) -> None:
        if self.on_top:
            self._draft.drop()
            self._close()

    def _said(self) -> list[str]:
        return [self.query_one(f"#{field}", LineInput).value for field in _FIELDS]

    def _close(self) -> None:
        if self.on_top:
            self._answered = True
            self.close()
