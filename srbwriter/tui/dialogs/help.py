"""The help page, built from the declared commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from rich.table import Table
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS, Command, action, groups, screen_commands
from srbwriter.tui.dialogs.base import QUIT, Dialog, Page
from srbwriter.tui.widgets.lines import FilterLine, key_name, matches
from srbwriter.tui.write.essentials import ESSENTIALS, Essential, first_key

_INTRO = (
    "{places} These eight keys are enough to write with. Everything else that you type goes into the story "
    "until you choose a branch: then plain keys act on that branch. Esc or a click chooses one, too. {menu} "
    "lists all commands, also those without a key."
)


class Help(Dialog[None]):
    """Every command with its keys; commands for a branch or for the current ``page`` come first."""

    KEYS = "In this help"
    OPENED_BY = "help"
    BINDINGS = [QUIT]
    HEADING = "Help"

    DEFAULT_CSS = """
    Help > .box { width: 96; height: 92%; }
    Help Static { height: auto; padding: 0 1; }
    Help .commands { height: auto; }
    Help .group { color: $primary; text-style: bold; padding: 1 1 0 1; }
    """

    def __init__(self, on_branch: bool = False, page: type[Page[Any]] | None = None) -> None:
        super().__init__()
        self._on_branch, self._page = on_branch, page
        self.foot = "{keys}"

    def content(self) -> ComposeResult:
        yield FilterLine(lambda: self.query_one(VerticalScroll))
        with VerticalScroll():
            if self._page is None:
                yield Static(self._intro(), id="intro", markup=False)
            for group, entries in self._groups().items():
                with Vertical(classes="commands", name=group):
                    yield Static(group, classes="group")
                    yield Static(_table(entries), classes="table")

    @on(FilterLine.Changed)
    def _narrow(self) -> None:
        """Show only the commands that match the filter."""
        words = self.query_one(FilterLine).words
        self.query("#intro").set(display=not words)
        groups = self._groups()
        for section in self.query(".commands"):
            entries = groups[section.name or ""]
            found = [entry for entry in entries if matches(words, section.name or "", *astuple(entry))]
            section.query_one(".table", Static).update(_table(found))
            section.display = bool(found)

    def _intro(self) -> str:
        places = self.app.write_screen.arrangement.describe(self.app.size)
        return _INTRO.format(places=places, menu=first_key(self.app.known_keys, "menu"))

    def _groups(self) -> dict[str, list[_Entry]]:
        """Return all commands by heading; commands that work at the current focus come first."""
        found = {group: [self._entry(c) for c in COMMANDS.values() if c.group == group] for group in groups()}
        if not self._on_branch:
            anywhere = {command.group for command in COMMANDS.values() if command.anywhere}
            found = dict(sorted(found.items(), key=lambda item: item[0] not in anywhere))
        others = {
            heading: [self._entry_of(binding) for binding in bindings]
            for heading, bindings in screen_commands().items()
        }
        here = self._page.KEYS if self._page is not None else ""
        first = {here: others.pop(here)} if here in others else {}
        if self._page is None:
            first = {"Eight keys to know": [self._essential(essential) for essential in ESSENTIALS]}
        return first | found | others

    def _essential(self, essential: Essential) -> _Entry:
        keys = "  ".join(first_key(self.app.known_keys, command) for command in essential.commands)
        title = essential.label[:1].upper() + essential.label[1:]
        return _Entry(" ".join(essential.commands), title, essential.help, keys)

    def _entry(self, command: Command) -> _Entry:
        keys = ["1–9"] if command.numbered else [key_name(key) for key in self.app.keys(command.id)]
        keys += [key_name(key) for key in self.app.anywhere(command.id)]
        return _Entry(command.id, command.title, command.help, "  ".join(keys))

    def _entry_of(self, binding: Binding) -> _Entry:
        title = binding.description[:1].upper() + binding.description[1:]
        return _Entry("", title, binding.tooltip, "  ".join(map(key_name, binding.key.split(","))))

    @action("slash", "narrows")
    def action_narrow(self) -> None:
        """Show only the commands that match some words."""
        self.query_one(FilterLine).begin()

    def action_help(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Entry:
    """A row of the help table."""

    id: str
    title: str
    help: str
    keys: str


def _table(entries: Sequence[_Entry]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(min_width=14, no_wrap=True)
    table.add_column()
    for entry in entries:
        table.add_row(Text(entry.keys, "bold"), Text.assemble((f"{entry.title}. ", "bold"), entry.help))
    return table
