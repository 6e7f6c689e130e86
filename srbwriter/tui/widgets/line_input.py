"""One line for an answer. Knows nothing of what is asked."""

from __future__ import annotations

import re

from textual import events
from textual.widgets import Input

_ENDS = re.compile(r"[ \t]*(?:\r\n|\r|\n)\s*")


class LineInput(Input):
    """A line that takes all of what is pasted: where that has several lines, they follow each other."""

    def on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # Textual's own keeps the first line and drops the others
        event.stop()
        words = _ENDS.sub(" ", event.text.strip("\r\n"))
        self.replace(words, *self.selection)
