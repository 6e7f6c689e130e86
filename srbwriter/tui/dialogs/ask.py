"""Dialogs that ask for a line, for one key, or for a short form. The caller supplies the question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from functools import wraps
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from srbwriter.story import Properties
from srbwriter.tui.dialogs.base import Bar, Page
from srbwriter.tui.widgets.lines import key_name

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft
    from srbwriter.tui.messages import Message
    from srbwriter.tui.program import Writer


_ENDS = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")


class LineInput(Input):
    """A one-line input that keeps all of a pasted text: line ends become spaces."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Textual's handler keeps only the first line
        event.stop()
        words = _ENDS.sub(" ", event.text.strip("\r\n"))
        self.replace(words, *self.selection)


Handler = Callable[..., Any]

ASKING: set[Handler] = set()
"""Every command that asks for text; see :func:`asks`."""


def asks(handler: Handler) -> Handler:
    """Decorate a command of a screen that opens a prompt for text.

    If it opens none, a :class:`Refusal` shows why, so that text typed for the prompt never runs commands.
    A handler that did something else instead returns True.
    """

    @wraps(handler)
    def asked(screen: Writer | Page[Any], *given: object) -> None:
        returned: list[object] = []
        screen.app.write_screen.guarded(lambda: returned.append(handler(screen, *given)))
        if screen.app.screen is screen and returned != [True]:
            screen.app.push_screen(Refusal([message.words for message in screen.app.messages.current]))

    ASKING.add(asked)
    return asked


class Refusal(Bar[None]):
    """Shows why a prompt did not open. Typed text is ignored."""

    FOOT = "{close_dialog} or enter goes back"

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__()
        self._reasons = reasons

    def content(self) -> ComposeResult:
        yield Static("\n".join(self._reasons) or "There is nothing to type into here.", markup=False)

    def show_messages(self, messages: Sequence[Message]) -> None:
        """Show no messages: the reasons are among them."""

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key == "enter" or event.key in self.app.known_keys.of(Page)["close_dialog"]:
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


class AskWords(Ask):
    """Ask for text by the writer; ``draft`` keeps it safe while it is typed.

    ``take`` applies the answer; if it returns False, the dialog stays open. ``answer`` is the initial text,
    unless a draft was left over from an earlier run.
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
        # Changed messages of the last keys can arrive after the dialog has closed.
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
"""The fields of :class:`Properties` in order, with their labels."""

_FORM_HELP = "Shown in exported books. Language: en, de, pt-BR … · tab next · enter saves · {keys}"


class PropertiesForm(Bar[None]):
    """A form for title, author and language.

    ``take`` applies the answers; if it returns False, the form stays open. ``draft`` keeps the typed text
    safe, one line per field.
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
        # Changed messages of the last keys can arrive after the form has closed.
        if words != self._words and not self._answered:
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
