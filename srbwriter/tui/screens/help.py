"""The commands, shown: all of them with their keys, those of the next key behind the leader, and the palette.

Made from what was declared; run nothing themselves but through the write screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS, LEADER, Command, groups
from srbwriter.tui.dialog import Bar, Dialog
from srbwriter.tui.widgets.lines import FilterLine, key_name, matches

if TYPE_CHECKING:
    from srbwriter.tui.app import App


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


class CommandProvider(Provider):
    """Commands of the table. Those that only move about are left to their keys."""

    if TYPE_CHECKING:

        @property
        def app(self) -> App: ...  # pyright: ignore[reportIncompatibleMethodOverride]

    def _help(self, command: Command) -> str:
        keys = [*self.app.keys(command.id), *self.app.anywhere(command.id)]
        return f"{', '.join(map(key_name, keys[:3]))}  {command.help}" if keys else command.help

    async def discover(self) -> Hits:
        for command in COMMANDS.values():
            yield DiscoveryHit(
                command.title, partial(self.app.write_screen.run, command.id), help=self._help(command)
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for command in COMMANDS.values():
            score = max(matcher.match(command.title), 0.8 * matcher.match(command.group))
            if score > 0:
                yield Hit(
                    score,
                    matcher.highlight(command.title),
                    partial(self.app.write_screen.run, command.id),
                    help=self._help(command),
                )
