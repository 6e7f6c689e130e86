"""The find bar: goes from one place of some words to the next, and stays open until the writer leaves it.

The story's text has no focus meanwhile, so no key can replace what was found. Knows an editor's text and
selects in it; changes no word.
"""

from __future__ import annotations

from collections.abc import Callable

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import Static

from srbwriter.tui.dialog import Bar
from srbwriter.tui.finder import Finder
from srbwriter.tui.widgets.line_input import LineInput
from srbwriter.tui.widgets.story_editor import StoryEditor

_KEYS = "enter next · shift+enter or ↑ previous · esc closes"


class FindBar(Bar[None]):
    """``looked`` is told what is looked for, so that it can be offered the next time."""

    HEADING = f"Find · {_KEYS}"
    BINDINGS = [  # a line of input has its own enter, and ctrl+f would delete a word in it
        Binding("ctrl+f,down", "go(1)", "next", priority=True),
        Binding("shift+enter,up", "go(-1)", "previous", priority=True),
    ]
    DEFAULT_CSS = """
    FindBar Horizontal { height: 1; }
    FindBar #found { width: auto; min-width: 10; padding: 0 0 0 2; color: $foreground; }
    FindBar Input { width: 1fr; }
    """

    def __init__(self, editor: StoryEditor, words: str, looked: Callable[[str], None]) -> None:
        super().__init__()
        self._editor, self._first, self._looked = editor, words, looked
        self._finder = Finder(editor.whole)
        self._many = 0  # places
        self._words = ""
        self._at: tuple[int, int] | None = None  # the place that is shown

    def content(self) -> ComposeResult:
        with Horizontal():
            yield LineInput(self._first, compact=True, select_on_focus=True)
            yield Static(id="found", markup=False)

    def on_mount(self) -> None:
        self._look(self._first)

    @on(LineInput.Changed)
    def _changed(self, event: LineInput.Changed) -> None:
        self._look(event.value)

    @on(LineInput.Submitted)
    def _submitted(self) -> None:
        self.action_go(1)

    def action_go(self, step: int) -> None:
        """Show the next place from where the cursor is, or the one before; round at either end."""
        self._look(self.query_one(LineInput).value)
        place = self._next(step)
        if place is not None:
            self._looked(self._words)
            self._at = place
            self._editor.mark(*place)
        self._say()

    def _next(self, step: int) -> tuple[int, int] | None:
        """From the cursor on at first: the place it stands on counts, the one it stands behind does not."""
        start, end = self._at or (self._editor.place, self._editor.place)
        return self._finder.after(end) if step > 0 else self._finder.before(start)

    def _look(self, words: str) -> None:
        if words == self._words:
            return
        self._words, self._at = words, None
        self._many = self._finder.look(words)
        self._say()

    def _say(self) -> None:
        if not self._words:
            said = ""
        elif not self._many:
            said = "not in the story"
        elif self._at is None:
            said = f"{self._many} found"
        else:
            said = f"{self._finder.number(self._at[0])} of {self._many}"
        self.query_one("#found", Static).update(said)

    def action_close(self) -> None:
        self._editor.unmark()
        self.close()
