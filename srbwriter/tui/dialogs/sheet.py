"""The editor dialog for longer texts, such as a branch before it is picked."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.widgets import Static

from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import LEFT, Confirm, Drafted
from srbwriter.tui.prose import Prose

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft


class Sheet(Drafted[bool]):
    """An editor dialog. Dismissed with True if the text was kept; asks before it drops a change.

    Args:
        title: the heading.
        text: the initial text.
        about: one line about the purpose of the text.
        take: applies the text; if it returns False, the dialog stays open.
        draft: keeps the text safe while the dialog is open.
        keeps: what keeping the text does, shown after the key.
    """

    KEYS = "On a sheet"
    BADGE = "SHEET"
    DEFAULT_CSS = """
    Sheet > .box { height: 70%; }
    Sheet > .box > .about { color: $text-muted; }
    Sheet Prose { height: 1fr; border: none; background: $background; margin: 1 0; }
    Sheet.-low > .box { height: 96%; }
    Sheet.-low > .box > .about { display: none; }
    Sheet.-low > .box > .left { display: block; }
    Sheet.-low Prose { margin: 0; }
    """
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # rows of the window

    def __init__(
        self,
        title: str,
        text: str,
        about: str,
        take: Callable[[str], bool],
        draft: Draft,
        keeps: str = "keeps it",
    ) -> None:
        super().__init__()
        self.heading, self._text, self._about, self._take, self._keeps = title, text, about, take, keeps
        self.foot = f"^s {keeps} · esc goes back, and asks first if you changed something"
        left = draft.words
        self._interrupted = left is not None
        self._first = text if left is None else left
        self.begin_draft(draft, self._first)

    def content(self) -> ComposeResult:
        yield Static(self._about, classes="about", markup=False)
        if self._interrupted:
            yield Static(LEFT, classes="about left", markup=False)
        yield Prose(self._first)

    def on_mount(self) -> None:
        self.query_one(Prose).go_end().focus()

    @on(Prose.Changed)
    def _typed(self, event: Prose.Changed) -> None:
        self.put_in_draft(event.text)

    def action_close(self) -> None:
        if self.query_one(Prose).text == self._text:
            self._drop()
        else:
            self._ask()

    @action("ctrl+s", "keep")
    def action_keep(self) -> None:
        """Keep the text and close the dialog."""
        self.finish(True, self.query_one(Prose).text, self._take)

    def _drop(self) -> None:
        self.finish(False, None, self._take)

    def _ask(self) -> None:
        answers = {"s": self._keeps, "d": "discards your changes", "escape": "continues editing"}
        question = f"{self.heading}: you changed the text."
        self.ask(Confirm(question, answers), lambda key: self.action_keep() if key == "s" else self._drop())
