"""Two texts side by side, with the words in which they differ marked. Knows texts only."""

from __future__ import annotations

import difflib
import re

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from srbwriter.tui.screens.push import leave

_WORD = re.compile(r"\s*\S+|\s+$")


def differences(one: str, other: str) -> tuple[list[tuple[str, bool]], list[tuple[str, bool]]]:
    """Both texts in pieces; True for a piece that the other text does not have."""
    left, right = _WORD.findall(one), _WORD.findall(other)
    first: list[tuple[str, bool]] = []
    second: list[tuple[str, bool]] = []
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if b > a:
            first.append(("".join(left[a:b]), tag != "equal"))
        if d > c:
            second.append(("".join(right[c:d]), tag != "equal"))
    return first, second


class Compare(ModalScreen[None]):
    """Escape closes it."""

    DEFAULT_CSS = """
    Compare { align: center middle; background: $background 60%; }
    Compare > Vertical {
        width: 96%; height: 90%; background: $surface; border: round $primary; padding: 0 1;
    }
    Compare VerticalScroll { width: 1fr; padding: 0 1; }
    Compare Static { height: auto; }
    Compare .foot { color: $text-muted; }
    """

    def __init__(self, titles: tuple[str, str], texts: tuple[str, str]) -> None:
        super().__init__()
        self._titles, self._texts = titles, texts

    def compose(self) -> ComposeResult:
        with Vertical():
            with Horizontal():
                for title, pieces in zip(self._titles, differences(*self._texts), strict=True):
                    with VerticalScroll():
                        yield Static(_marked(title, pieces))
            yield Static("words only one of them has are underlined · esc goes back", classes="foot")

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "q"):
            event.stop()
            leave(self)


def _marked(title: str, pieces: list[tuple[str, bool]]) -> Content:
    parts = [(text, "bold underline $text-accent" if only else "") for text, only in pieces]
    return Content.assemble((f"{title}\n\n", "bold $primary"), *parts)
