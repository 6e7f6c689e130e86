"""Two texts side by side, with the words in which they differ marked. Knows texts only."""

from __future__ import annotations

import difflib
import re

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.dialog import Dialog

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


class Compare(Dialog[None]):
    """Two texts, and how they differ."""

    FOOT = "words only one of them has are underlined · esc goes back"
    BINDINGS = [Binding("q", "close", "Close", show=False)]

    DEFAULT_CSS = """
    Compare > .box { width: 96%; height: 90%; }
    Compare VerticalScroll { width: 1fr; padding: 0 1; }
    Compare Static { height: auto; }
    """

    def __init__(self, titles: tuple[str, str], texts: tuple[str, str]) -> None:
        super().__init__()
        self._titles, self._texts = titles, texts

    def content(self) -> ComposeResult:
        with Horizontal():
            for title, pieces in zip(self._titles, differences(*self._texts), strict=True):
                with VerticalScroll():
                    yield Static(_marked(title, pieces))


def _marked(title: str, pieces: list[tuple[str, bool]]) -> Content:
    parts = [(text, "bold underline $text-accent" if only else "") for text, only in pieces]
    return Content.assemble((f"{title}\n\n", "bold $primary"), *parts)
