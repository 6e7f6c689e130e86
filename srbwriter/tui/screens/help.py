"""Help: every command with its keys, those for what has the focus first. Made from the table."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS, LEADER, Command, groups
from srbwriter.tui.dialog import Dialog
from srbwriter.tui.widgets.filter_line import FilterLine, matches
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
    FOOT = "/ narrows · esc goes back · ctrl+p finds a command by its name and runs it"

    DEFAULT_CSS = """
    Help > .box { width: 96; height: 92%; }
    Help Static { height: auto; padding: 0 1; }
    Help .commands { height: auto; }
    Help .group { color: $primary; text-style: bold; padding: 1 1 0 1; }
    """

    def __init__(self, on_branch: bool) -> None:
        super().__init__()
        self._on_branch = on_branch

    def content(self) -> ComposeResult:
        yield FilterLine(lambda: self.query_one(VerticalScroll))
        with VerticalScroll():
            yield Static(self._intro(), id="intro", markup=False)
            for group in self._groups():
                with Vertical(classes="commands", name=group):
                    yield Static(group, classes="group")
                    yield Static(self._table(group), classes="table")

    @on(FilterLine.Changed)
    def _narrow(self) -> None:
        """Show the commands that are looked for."""
        words = self.query_one(FilterLine).words
        self.query_one("#intro").display = not words
        for section in self.query(".commands"):
            table = self._table(section.name or "", words)
            section.query_one(".table", Static).update(table)
            section.display = bool(table.row_count)

    def _intro(self) -> str:
        return _INTRO.format(
            write=" or ".join(self._keys(COMMANDS["generate"])),
            switch=" or ".join(self._keys(COMMANDS["switch"])),
            leader=key_name(LEADER),
        )

    def _groups(self) -> list[str]:
        """What works where the focus is comes first."""
        if self._on_branch:
            return groups()
        anywhere = {command.group for command in COMMANDS.values() if command.anywhere}
        return sorted(groups(), key=lambda group: group not in anywhere)

    def _table(self, group: str, words: Sequence[str] = ()) -> Table:
        table = Table.grid(padding=(0, 2))
        table.add_column(min_width=14, no_wrap=True)
        table.add_column()
        for command in COMMANDS.values():
            keys = "  ".join(self._keys(command))
            texts = command.title, command.help, command.id, keys, group
            if command.group == group and matches(words, *texts):
                what = Text.assemble((f"{command.title}. ", "bold"), command.help)
                table.add_row(Text(keys, "bold"), what)
        return table

    def _keys(self, command: Command) -> list[str]:
        keys = ["1–9"] if command.numbered else [key_name(key) for key in self.app.keys(command.id)]
        return [*keys, *(key_name(key) for key in self.app.anywhere(command.id))]

    def on_key(self, event: events.Key) -> None:
        if self.query_one(FilterLine).has_focus:
            return
        if event.key == "slash":
            event.stop()
            event.prevent_default()
            self.query_one(FilterLine).begin()
        if event.key in ("q", *self.app.keys("help"), *self.app.anywhere("help")):
            event.stop()
            self.close()
