"""The leader's menu: what the next key does, shown over the write screen until it is pressed.

Made from the commands. It returns the key and runs nothing itself.
"""

from __future__ import annotations

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.dialog import Bar
from srbwriter.tui.widgets.key_line import key_name

_GAP = 3  # cells between two entries


class LeaderMenu(Bar[str]):
    """Dismissed with the key that was pressed, or None for escape."""

    def content(self) -> ComposeResult:
        yield Static()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(Static).update(_menu(self._entries(), event.size.width - 2))

    def _entries(self) -> list[tuple[str, str]]:
        """Key and short name of every command that has a key here; help has the titles."""
        entries: list[tuple[str, str]] = []
        for command in COMMANDS.values():
            keys = ["1–9"] if command.numbered else self.app.keys(command.id)
            if keys:
                entries.append((key_name(keys[0]), command.id.replace("_", " ")))
        return entries

    def on_key(self, event: events.Key) -> None:
        if event.key != "escape":
            event.stop()
            self.close(event.key)


def _menu(entries: list[tuple[str, str]], width: int) -> Content:
    """The entries one after the other; none is cut by the end of a line."""
    parts: list[tuple[str, str]] = []
    room = width
    for key, label in entries:
        cells = cell_len(key) + 1 + cell_len(label)
        if cells > room:
            parts.append(("\n", ""))
            room = width
        parts += [(f"{key} ", "bold $text-accent"), (label, "")]
        if (room := room - cells - _GAP) > 0:
            parts.append((" " * _GAP, ""))
    return Content.assemble(*parts)
