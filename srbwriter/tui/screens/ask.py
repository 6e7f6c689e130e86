"""Questions that are answered in a line, with one key, or in a short form. Know nothing of what is asked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from srbwriter.story import Properties
from srbwriter.tui.dialog import Bar
from srbwriter.tui.widgets.lines import key_name

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft


_ENDS = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")


class LineInput(Input):
    """A line that takes all of what is pasted: where that has several lines, they follow each other."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Textual's own keeps the first line and drops the others
        event.stop()
        words = _ENDS.sub(" ", event.text.strip("\r\n"))
        self.replace(words, *self.selection)


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


class Confirm(Bar[str]):
    """Dismissed with the key of an answer, or None for escape; other keys do nothing.

    Args:
        question: what is asked.
        answers: what each key means, in words that follow the key; ``escape`` may be among them.
    """

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def content(self) -> ComposeResult:
        parts: list[tuple[str, str]] = [(f"{self._question}\n", "bold")]
        for key, meaning in self._answers.items():
            name = self.with_keys("{close_dialog}") if key == "escape" else key_name(key)
            parts += [(name, "bold $text-accent"), (f" {meaning}   ", "")]
        yield Static(Content.assemble(*parts))

    def on_key(self, event: events.Key) -> None:
        if event.key in self._answers and event.key != "escape":
            event.stop()
            self.close(event.key)


_FIELDS = {
    "title": "Title",
    "author": "Author",
    "language": "Language",
}
"""The fields of :class:`Properties` in their order, and what they are called."""

_FORM_HELP = "Books and pages say so. A language is en, de, pt-BR … · tab next · enter keeps it · {keys}"


class PropertiesForm(Bar[None]):
    """Asks for all three at once.

    ``take`` does with them what they are for; where it says False, the form stays open. ``draft`` keeps what
    is typed safe meanwhile, a line for each field.
    """

    FOOT = _FORM_HELP
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
