"""The line for a wish, which remembers the earlier ones of the story."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from srbwriter.tui.commands import action
from srbwriter.tui.dialogs.ask import AskWords, LineInput

if TYPE_CHECKING:
    from srbwriter.session.drafts import Draft


EXAMPLES = "for example: shorter, from her view, more rain"


class AskWish(AskWords):
    """Ask for a wish. ``earlier`` are those that can be shown again, the last one at the end."""

    KEYS = "Ask for a change"
    FOOT = "enter asks · ↑ earlier wishes · esc goes back"

    def __init__(
        self, question: str, take: Callable[[str], bool], draft: Draft, earlier: Sequence[str]
    ) -> None:
        super().__init__(question, take, draft)
        self._lines = [*earlier, ""]  # the last one is what the writer has typed
        self._at = len(earlier)

    @action("up", "earlier", -1, priority=False)
    @action("down", "later", 1, priority=False)
    def action_turn(self, steps: int) -> None:
        """Show an earlier or a later wish of this story."""
        line, at = self.query_one(LineInput), self._at + steps
        if 0 <= at < len(self._lines):
            self._lines[self._at], self._at = line.value, at
            line.value = self._lines[at]
            line.cursor_position = len(line.value)
