"""Help: every command with its keys, those for what has the focus first. Made from the table."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS, GROUPS, LEADER, Command
from srbwriter.tui.dialog import Dialog
from srbwriter.tui.widgets.key_line import key_name

_INTRO = (
    "The story is above, its live branches are below. {write} has branches written; pick one by its number, "
    "and it becomes part of the story and new ones go on from there.\n\nPlain keys act on a branch while the "
    "branches have the focus ({switch} moves between story and branches). From anywhere else, press {leader} "
    "first."
)


class Help(Dialog[None]):
    """Any of its own keys, or escape, closes it."""

    HEADING = "Help"
    FOOT = "esc goes back · ctrl+p finds a command by its name"

    DEFAULT_CSS = """
    Help > .box { width: 96; height: 92%; }
    Help Static { height: auto; padding: 0 1; }
    Help .group { color: $primary; text-style: bold; padding: 1 1 0 1; }
    """

    def __init__(self, on_branch: bool) -> None:
        super().__init__()
        self._on_branch = on_branch

    def content(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._intro(), markup=False)
            for group in self._groups():
                yield Static(group, classes="group")
                yield Static(self._table(group))

    def _intro(self) -> str:
        commands = {command.id: command for command in COMMANDS}
        return _INTRO.format(
            write=" or ".join(self._keys(commands["generate"])),
            switch=" or ".join(self._keys(commands["switch"])),
            leader=key_name(LEADER),
        )

    def _groups(self) -> list[str]:
        """What works where the focus is comes first."""
        if self._on_branch:
            return list(GROUPS)
        anywhere = {command.group for command in COMMANDS if command.anywhere}
        return sorted(GROUPS, key=lambda group: group not in anywhere)

    def _table(self, group: str) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(min_width=14, no_wrap=True)
        table.add_column()
        for command in COMMANDS:
            if command.group == group:
                words = Text.assemble((f"{command.title}. ", "bold"), command.help)
                table.add_row(Text("  ".join(self._keys(command)), "bold"), words)
        return table

    def _keys(self, command: Command) -> list[str]:
        keys = ["1–9"] if command.numbered else [key_name(key) for key in self.app.keys(command)]
        return [*keys, *(key_name(key) for key in self.app.anywhere(command))]

    def on_key(self, event: events.Key) -> None:
        own = next(command for command in COMMANDS if command.id == "help")
        if event.key in ("q", *self.app.keys(own), *self.app.anywhere(own)):
            event.stop()
            self.close()
