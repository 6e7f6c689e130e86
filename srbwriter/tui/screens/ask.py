"""One question and one line for the answer. Knows nothing of what is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult

from srbwriter.tui.dialog import Bar
from srbwriter.tui.widgets.line_input import LineInput

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft

LEFT = "These words were here when the program last ended, and have not been kept yet."


class Ask(Bar[str]):
    """Dismissed with the answer, or None for escape."""

    def __init__(self, question: str, answer: str = "", select: bool = False) -> None:
        super().__init__()
        self.heading, self._answer, self._select = question, answer, select

    def content(self) -> ComposeResult:
        yield LineInput(self._answer, compact=True, select_on_focus=self._select)

    @on(LineInput.Submitted)
    def _submitted(self, event: LineInput.Submitted) -> None:
        self.answer(event.value)

    def action_close(self) -> None:
        self.answer(None)

    def answer(self, answer: str | None) -> None:
        """Close with what was answered; None is no answer."""
        self.close(answer)


class AskWords(Ask):
    """Asks for words of the writer's, which ``draft`` keeps safe meanwhile.

    ``take`` does with them what they are for; where it says False, the question stays open. ``answer`` is
    what they are now, unless the program ended while they were being typed.
    """

    def __init__(self, question: str, take: Callable[[str], bool], draft: Draft, answer: str = "") -> None:
        if (left := draft.words) is not None:
            question, answer = f"{question}\n{LEFT}", left
        super().__init__(question, answer)
        self._take = take
        self._draft, self._said = draft, self._answer
        self._answered = False

    @on(LineInput.Changed)
    def _typed(self, event: LineInput.Changed) -> None:
        # It hears of its last keys when it has been left.
        if event.value != self._said and not self._answered:
            self._said = event.value
            self._draft.typed(event.value)

    def answer(self, answer: str | None) -> None:
        if not self.on_top:
            return
        if answer is None:
            self._draft.drop()
        elif not self._draft.give(answer, self._take):
            return
        if self.on_top:
            self._answered = True
            self.close(answer)
