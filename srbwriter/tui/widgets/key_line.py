"""The last line: the keys that matter where the focus is. A click on one presses it.

Made from the table of commands; knows no handler.
"""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

_NAMES = {
    "enter": "⏎",
    "escape": "esc",
    "backspace": "⌫",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "right_square_bracket": "]",
    "left_square_bracket": "[",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "slash": "/",
    "question_mark": "?",
    "apostrophe": "'",
    "comma": ",",
    "full_stop": ".",
    "colon": ":",
    "semicolon": ";",
    "vertical_line": "|",
    "asterisk": "*",
    "number_sign": "#",
    "quotation_mark": '"',
    "ampersand": "&",
    "exclamation_mark": "!",
    "at": "@",
    "dollar_sign": "$",
    "percent_sign": "%",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "backslash": "\\",
}


def key_name(key: str) -> str:
    """A key as it is shown: ``^n`` for ctrl+n, ``⏎`` for enter."""
    if key.startswith("ctrl+"):
        return "^" + key_name(key.removeprefix("ctrl+"))
    return _NAMES.get(key, key.upper() if key[0] == "f" and key[1:].isdigit() else key)


_STAYS = ("pick_number", "generate", "back", "switch", "help", "quit", "palette", "reroll")
"""Commands whose keys are shown as long as there is room, the most wanted first."""


def fitting(entries: Sequence[tuple[str, str, str]], width: int) -> list[tuple[str, str, str]]:
    """As many of ``entries`` as fit into ``width`` cells, in their order; the least wanted give way."""
    kept = list(entries)
    wanted = {command: rank for rank, command in enumerate(_STAYS)}
    while kept and sum(cell_len(key) + cell_len(label) + 3 for _, key, label in kept) > width:
        kept.remove(max(kept, key=lambda entry: wanted.get(entry[0], len(wanted) + entries.index(entry))))
    return kept


class KeyLine(Widget):
    """``entries`` are (command id, key, label)."""

    DEFAULT_CSS = """
    KeyLine { height: 1; width: 1fr; background: $background; color: $text-muted; }
    """

    class Pressed(Message):
        def __init__(self, command: str) -> None:
            self.command = command
            super().__init__()

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.entries: list[tuple[str, str, str]] = []
        self._spans: list[tuple[int, int, str]] = []

    def show(self, entries: list[tuple[str, str, str]]) -> None:
        if entries != self.entries:
            self.entries = entries
            self.refresh()

    def render(self) -> Content:
        parts: list[Content | tuple[str, str]] = []
        self._spans = []
        at = 1
        for command, key, label in fitting(self.entries, self.size.width):
            width = cell_len(key) + 1 + cell_len(label)
            self._spans.append((at, at + width, command))
            parts += [(f" {key}", "bold $foreground"), (f" {label} ", "$text-muted")]
            at += width + 2
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        for start, end, command in self._spans:
            if start <= event.x < end:
                self.post_message(self.Pressed(command))
