"""The leader's menu: what the next key does, shown over the desk until it is pressed.

Made from the table of commands. It returns the key and runs nothing itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS
from srbwriter.tui.screens.push import leave
from srbwriter.tui.widgets.key_line import key_name

if TYPE_CHECKING:
    from srbwriter.tui.app import Workbench


class LeaderMenu(ModalScreen[str | None]):
    """Dismissed with the key that was pressed, or None for escape."""

    DEFAULT_CSS = """
    LeaderMenu { align: center bottom; background: $background 0%; }
    LeaderMenu Static { width: 100%; height: auto; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, bench: Workbench) -> None:
        super().__init__()
        self._bench = bench

    def compose(self) -> ComposeResult:
        yield Static(self._menu())

    def _menu(self) -> Content:
        parts: list[tuple[str, str]] = []
        for command in COMMANDS:
            keys = self._bench.keys(command)
            if keys:
                name = "1–9" if command.numbered else key_name(keys[0])
                label = command.title.lower().replace(" this branch", "").replace(" a branch by number", "")
                parts += [(f"{name} ", "bold $text-accent"), (f"{label}   ", "")]
        return Content.assemble(*parts)

    def on_key(self, event: events.Key) -> None:
        event.stop()
        leave(self, None if event.key == "escape" else event.key)
