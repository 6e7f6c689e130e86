"""Dialogs that ask for a line, for one key, or for a short form. The caller supplies the question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Input, Static

from srbwriter.tui.commands import key_name
from srbwriter.tui.dialogs.base import Bar, Dialog, Result

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft


_ENDS = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")


class LineInput(Input):
    """A one-line input that keeps all of a pasted text: line ends become spaces."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Textual's handler keeps only the first line
        event.stop()
        words = _ENDS.sub(" ", event.text.strip("\r\n"))
        self.replace(words, *self.selection)


class Refusal(Bar[None]):
    """Shows why a prompt did not open. Typed text is ignored."""

    FOOT = "esc or enter goes back"

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__()
        self._reasons = reasons

    def content(self) -> ComposeResult:
        yield Static("\n".join(self._reasons) or "There is nothing to type into here.", markup=False)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in ("enter", "escape"):
            self.close()


LEFT = "Recovered: you typed this before the program ended. It is not saved in the story yet."


class Ask(Bar[str]):
    """Ask for one line. Dismissed with the answer, or None after escape."""

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
        """Close the dialog with ``answer``; None means that the writer cancelled."""
        self.close(answer)


class Drafted(Dialog[Result]):
    """A dialog whose text a draft keeps safe while it is typed."""

    _draft: Draft
    _said: str
    """The text that the draft has."""
    _answered = False

    def begin_draft(self, draft: Draft, words: str) -> None:
        """Keep the text in ``draft`` from now on; ``words`` is the text that is shown first."""
        self._draft, self._said = draft, words

    def put_in_draft(self, words: str) -> None:
        """Keep ``words``. The last keys may be heard of after the dialog has closed."""
        if words != self._said and not self._answered:
            self._said = words
            self._draft.typed(words)

    def finish(self, result: Result | None, words: str | None, take: Callable[[str], bool]) -> None:
        """Let ``take`` apply ``words``, or drop the draft if there are none; then close with ``result``.

        If ``take`` returns False, the dialog stays open.
        """
        if not self.on_top:
            return
        if words is None:
            self._draft.drop()
        elif not self._draft.give(words, take):
            return
        if self.on_top:
            self._answered = True
            self.close(result)


class AskWords(Ask, Drafted[str]):
    """Ask for text by the writer; ``draft`` keeps it safe while it is typed.

    ``take`` applies the answer; if it returns False, the dialog stays open. ``answer`` is the initial text,
    unless a draft was left over from an earlier run.
    """

    def __init__(self, question: str, take: Callable[[str], bool], draft: Draft, answer: str = "") -> None:
        if (left := draft.words) is not None:
            question, answer = f"{question}\n{LEFT}", left
        super().__init__(question, answer)
        self._take = take
        self.begin_draft(draft, answer)

    @on(LineInput.Changed)
    def _typed(self, event: LineInput.Changed) -> None:
        self.put_in_draft(event.value)

    def answer(self, answer: str | None) -> None:
        self.finish(answer, answer, self._take)


class Confirm(Bar[str]):
    """Ask for one key. Dismissed with that key, or None after escape; other keys do nothing.

    Args:
        question: the question.
        answers: maps each key to its meaning, shown after the key; ``escape`` may be one of the keys.
    """

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def content(self) -> ComposeResult:
        parts: list[tuple[str, str]] = [(f"{self._question}\n", "bold")]
        for key, meaning in self._answers.items():
            parts += [(key_name(key), "bold $text-accent"), (f" {meaning}   ", "")]
        yield Static(Content.assemble(*parts))

    def on_key(self, event: events.Key) -> None:
        if event.key in self._answers and event.key != "escape":
            event.stop()
            self.close(event.key)
