"""A question that is answered with one key. Knows nothing of what is asked."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.dialog import Bar
from srbwriter.tui.widgets.key_line import key_name


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
            parts += [(key_name(key), "bold $text-accent"), (f" {meaning}   ", "")]
        yield Static(Content.assemble(*parts))

    def on_key(self, event: events.Key) -> None:
        if event.key != "escape":
            event.stop()
            if event.key in self._answers:
                self.close(event.key)
