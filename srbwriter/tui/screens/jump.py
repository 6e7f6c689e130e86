"""Jump letters: each branch in view shows a letter, and that letter goes there. Knows panes only."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from srbwriter.tui.dialog import Dialog
from srbwriter.tui.widgets.branch_pane import BranchPane

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class Jump(Dialog[int]):
    """Dismissed with the index of the branch, or None for any other key."""

    DEFAULT_CSS = "Jump { background: $background 0%; } Jump > .box { display: none; }"

    def __init__(self, panes: Sequence[BranchPane]) -> None:
        super().__init__()
        self._panes = dict(zip(LETTERS, panes, strict=False))

    def on_mount(self) -> None:
        for letter, pane in self._panes.items():
            pane.letter = letter

    def on_unmount(self) -> None:
        for pane in self._panes.values():
            pane.letter = ""

    def on_key(self, event: events.Key) -> None:
        event.stop()
        pane = self._panes.get(event.key)
        self.close(None if pane is None else pane.index)
