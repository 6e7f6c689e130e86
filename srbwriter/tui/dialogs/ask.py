"""The questions that the program asks: one key, one line, or a text. The caller supplies the question."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Input, Static

from srbwriter.tui.commands import action, key_name
from srbwriter.tui.dialogs.base import Bar, Dialog
from srbwriter.tui.prose import Prose

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft


_ENDS = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")
_LEFT = "Recovered: you typed this before the program ended. It is not saved in the story yet."


class LineInput(Input):
    """A one-line input that keeps all of a pasted text: line ends become spaces."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Textual's handler keeps only the first line
        event.stop()
        words = _ENDS.sub(" ", event.text.strip("\r\n"))
        self.replace(words, *self.selection)


class Confirm(Bar[str]):
    """Ask for one key. Dismissed with that key, or None after escape; other keys do nothing.

    Args:
        question: the question; its first line is its title.
        answers: maps each key to its meaning, shown after the key; ``escape`` may be one of the keys.
    """

    DEFAULT_CSS = "Confirm VerticalScroll { height: auto; max-height: 80vh; }"

    def __init__(self, question: str, answers: Mapping[str, str]) -> None:
        super().__init__()
        self._question, self._answers = question, answers

    def content(self) -> ComposeResult:
        title, line, rest = self._question.partition("\n")
        with VerticalScroll():
            yield Static(Content.assemble((title, "bold"), line, rest))
        parts: list[tuple[str, str]] = []
        for key, meaning in self._answers.items():
            parts += [(key_name(key), "bold $text-accent"), (f" {meaning}   ", "")]
        yield Static(Content.assemble(*parts), classes="answers")

    def on_key(self, event: events.Key) -> None:
        if event.key in self._answers and event.key != "escape":
            event.stop()
            self.close(event.key)


class Form(Dialog[str]):
    """Ask for words. Dismissed with them, or None if the writer cancelled.

    Args:
        question: the heading.
        words: the first text, unless ``draft`` has words that were left over from an earlier run.
        take: applies the words; if it returns False, the form stays open.
        draft: keeps the words safe while they are typed.
    """

    def __init__(
        self, question: str, words: str = "", take: Callable[[str], bool] | None = None,
        draft: Draft | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._before, self._take, self._draft = words, take, draft
        left = draft.words if draft is not None else None
        self.heading = f"{question}\n{_LEFT}" if left is not None else question
        self.words = words if left is None else left

    def keep_typed(self, words: str) -> None:
        """Put ``words`` into the draft. The last keys may be heard of after the form has closed."""
        if words != self.words and self._draft is not None:
            self._draft.typed(words)
        self.words = words

    def answer(self, words: str | None) -> None:
        """Close with ``words``; None means that the writer cancelled."""
        if not self.on_top or (words is not None and self._take is not None and not self._take(words)):
            return
        if self._draft is not None:
            self._draft.drop()
            self._draft = None
        self.close(words)


class Ask(Bar[str], Form):
    """Ask for one line. With ``select``, the first key replaces all words."""

    def __init__(
        self, question: str, words: str = "", take: Callable[[str], bool] | None = None,
        draft: Draft | None = None, *, select: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(question, words, take, draft)
        self._select = select

    def content(self) -> ComposeResult:
        yield LineInput(self.words, compact=True, select_on_focus=self._select)

    @on(LineInput.Changed)
    def _typed(self, event: LineInput.Changed) -> None:
        self.keep_typed(event.value)

    @on(LineInput.Submitted)
    def _submitted(self, event: LineInput.Submitted) -> None:
        self.answer(event.value)

    def action_close(self) -> None:
        self.answer(None)


class Sheet(Form):
    """Ask for a text; asks before it drops a change.

    Args:
        question, words, take, draft: as for :class:`Form`.
        about: one line about the purpose of the text.
        keeps: what keeping the text does, shown after the key.
    """

    BADGE = "SHEET"
    DEFAULT_CSS = """
    Sheet > .box { height: 70%; }
    Sheet > .box > .about { color: $text-muted; }
    Sheet Prose { height: 1fr; border: none; background: $background; margin: 1 0; }
    Sheet.-low > .box { height: 96%; }
    Sheet.-low > .box > .about { display: none; }
    Sheet.-low Prose { margin: 0; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # rows of the window

    def __init__(
        self, question: str, words: str, about: str, take: Callable[[str], bool], draft: Draft,
        keeps: str = "keeps it",
    ) -> None:  # fmt: skip
        super().__init__(question, words, take, draft)
        self._title, self._about, self._keeps = question, about, keeps

    def content(self) -> ComposeResult:
        yield Static(self._about, classes="about", markup=False)
        yield Prose(self.words)

    def on_mount(self) -> None:
        self.query_one(Prose).action_move("end")
        self.query_one(Prose).focus()

    @on(Prose.Changed)
    def _typed(self, event: Prose.Changed) -> None:
        self.keep_typed(event.text)

    @action("ctrl+s", "keep")
    def action_keep(self) -> None:
        """Keep the text and close the dialog."""
        self.answer(self.query_one(Prose).text)

    def action_close(self) -> None:
        if self.query_one(Prose).text == self._before:
            self.answer(None)
        else:
            self.app.write_screen.attend(self._ask_before_closing(), self)

    async def _ask_before_closing(self) -> None:
        answers = {"s": self._keeps, "d": "discards your changes", "escape": "continues editing"}
        key = await self.app.ask(Confirm(f"{self._title}: you changed the text.", answers))
        if key == "s":
            self.action_keep()
        elif key == "d":
            self.answer(None)
