"""The find bar: goes from one place of some words to the next, and stays open until the writer leaves it.

The story's text has no focus meanwhile, so no key can replace what was found. Knows an editor's text and
selects in it; changes no word.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from srbwriter.tui.screens.push import leave
from srbwriter.tui.widgets.story_editor import StoryEditor

_KEYS = "enter next · shift+enter or ↑ previous · esc closes"


def places(text: str, words: str) -> list[tuple[int, int]]:
    """(first character, character after its last) of each place of ``words`` in ``text``; case is ignored."""
    if not words:
        return []
    return [match.span() for match in re.finditer(re.escape(words), text, re.IGNORECASE)]


class FindBar(ModalScreen[None]):
    """``looked`` is told what is looked for, so that it can be offered the next time."""

    BINDINGS = [  # a line of input has its own enter, and ctrl+f would delete a word in it
        Binding("ctrl+f,down", "go(1)", "next", priority=True),
        Binding("shift+enter,up", "go(-1)", "previous", priority=True),
    ]
    DEFAULT_CSS = """
    FindBar { align: center bottom; background: $background 0%; }
    FindBar Vertical { width: 100%; height: auto; background: $panel; padding: 0 1; }
    FindBar Horizontal { height: 1; }
    FindBar Static { color: $text-muted; height: 1; }
    FindBar #found { width: auto; min-width: 10; padding: 0 0 0 2; color: $foreground; }
    FindBar Input { width: 1fr; background: $background; }
    """

    def __init__(self, editor: StoryEditor, words: str, looked: Callable[[str], None]) -> None:
        super().__init__()
        self._editor, self._first, self._looked = editor, words, looked
        self._text = editor.whole
        self._places: list[tuple[int, int]] = []
        self._words = ""
        self._at: int | None = None  # the place that is shown

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(f"Find · {_KEYS}", markup=False)
            with Horizontal():
                yield Input(self._first, compact=True, select_on_focus=True)
                yield Static(id="found", markup=False)

    def on_mount(self) -> None:
        self._look(self._first)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._look(event.value)

    @on(Input.Submitted)
    def _submitted(self) -> None:
        self.action_go(1)

    def action_go(self, step: int) -> None:
        """Show the next place from where the cursor is, or the one before; round at either end."""
        self._look(self.query_one(Input).value)
        if not self._places:
            self._say()
            return
        self._looked(self._words)
        if self._at is None:
            # From the cursor on: the place it stands on counts, the one it stands behind does not.
            at = bisect_left(self._places, (self._editor.place, 0))
            self._at = (at if step > 0 else at - 1) % len(self._places)
        else:
            self._at = (self._at + step) % len(self._places)
        self._editor.mark(*self._places[self._at])
        self._say()

    def _look(self, words: str) -> None:
        if words == self._words:
            return
        self._words, self._at = words, None
        self._places = places(self._text, words)
        self._say()

    def _say(self) -> None:
        many = len(self._places)
        if not self._words:
            said = ""
        elif not many:
            said = "not in the story"
        elif self._at is None:
            said = f"{many} found"
        else:
            said = f"{self._at + 1} of {many}"
        self.query_one("#found", Static).update(said)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self._editor.unmark()
            leave(self)
