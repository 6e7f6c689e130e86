"""A line that narrows what stands below it; hidden until it is wanted."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from textual import events
from textual.widget import Widget
from textual.widgets import Input


def matches(words: Sequence[str], *texts: str) -> bool:
    """Whether every one of ``words``, in small letters, stands in one of ``texts``."""
    return all(any(word in text.casefold() for text in texts) for word in words)


class FilterLine(Input):
    """``enter`` and ``down`` lead back to what is narrowed, ``escape`` shows all of it again."""

    DEFAULT_CSS = """
    FilterLine { display: none; background: $panel; padding: 0 1; margin: 0 0 1 0; }
    FilterLine.-open { display: block; }
    """

    def __init__(self, back_to: Callable[[], Widget]) -> None:
        super().__init__(placeholder="narrow …", compact=True)
        self._back_to = back_to
        self.can_focus = False  # no key is to go to a line that nobody sees

    @property
    def words(self) -> list[str]:
        """What is looked for, in small letters."""
        return self.value.casefold().split()

    def begin(self) -> None:
        self.add_class("-open")
        self.can_focus = True
        self.focus()

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "enter", "down"):
            event.stop()
            event.prevent_default()
            self._back_to().focus()
        if event.key == "escape":
            self.value = ""
            self.remove_class("-open")
            self.can_focus = False
