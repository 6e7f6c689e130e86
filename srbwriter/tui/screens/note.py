"""The sheet of the author's note: its text, and how far from the story's end it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from srbwriter.tui.screens.sheet import Sheet

if TYPE_CHECKING:
    from srbwriter.session.typing import Draft

_ABOUT = "The model is told this near the end of the story."
_DEEPEST = 9999


class NoteSheet(Sheet):
    """``take`` is given the text and the depth; None leaves that to the usual one, ``usual`` lines."""

    DEFAULT_CSS = """
    NoteSheet Horizontal { height: 1; margin: 0 0 1 0; }
    NoteSheet .label { width: auto; color: $text-muted; padding: 0 1 0 0; }
    NoteSheet Input { width: 8; background: $background; }
    """

    def __init__(
        self, text: str, depth: int | None, usual: int, take: Callable[[str, int | None], bool], draft: Draft
    ) -> None:
        super().__init__("Author's note", text, _ABOUT, self._take_both, draft)
        self._now, self._usual, self._given = "" if depth is None else str(depth), usual, take
        self.foot = f"tab goes to the lines and back · {self.foot}"

    def content(self) -> ComposeResult:
        yield from super().content()
        with Horizontal():
            yield Static("Lines from the end of the story:", classes="label", markup=False)
            yield Input(self._now, placeholder=str(self._usual), compact=True)

    @property
    def _lines(self) -> str:
        return self.query_one(Input).value.strip()

    def _take_both(self, text: str) -> bool:
        lines = self._lines
        if lines and not (lines.isdecimal() and int(lines) <= _DEEPEST):
            self.notify(f"{lines} is no number of lines; 0 is the very end.", severity="error")
            return False
        return self._given(text, int(lines) if lines else None)

    def action_close(self) -> None:
        if self._lines != self._now:
            self._ask()
        else:
            super().action_close()
