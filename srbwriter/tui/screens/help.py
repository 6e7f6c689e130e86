"""The help page, the menu of the leader key, and the command palette.

All three are built from the declared commands and run them through the write screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text
from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui import commands, layouts
from srbwriter.tui.commands import COMMANDS, Command, action, groups, screen_commands
from srbwriter.tui.dialog import QUIT, Bar, Dialog, Page
from srbwriter.tui.widgets.lines import FilterLine, key_name, matches

if TYPE_CHECKING:
    from srbwriter.tui.program import Program


_INTRO = (
    "{places} {write} writes branches; pick one by its number, "
    "and it becomes part of the story and new branches continue from there. Everything else that you type "
    "goes into the story.\n\nAn arrow, {switch}, esc or a click chooses a branch, which then has a bright "
    "frame: plain keys act on it. From anywhere else, press {leader} first."
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
        if page is None:
            self.foot += (
                f" · {key_name(self.app.anywhere('palette')[0])} finds a command by its name and runs it"
            )

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
        return _INTRO.format(
            places=layouts.describe(self.app.write_screen),
            write=self._entry(COMMANDS["generate"]).keys.replace("  ", " or "),
            switch=" or ".join(map(key_name, self.app.anywhere("switch"))),
            leader=" or ".join(map(key_name, self.app.anywhere("leader"))),
        )

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
        return first | found | others

    def _entry(self, command: Command) -> _Entry:
        keys = ["1–9"] if command.numbered else [key_name(key) for key in self.app.keys(command.id)]
        keys += [key_name(key) for key in self.app.anywhere(command.id)]
        return _Entry(command.id, command.title, command.help, "  ".join(keys))

    def _entry_of(self, binding: Binding) -> _Entry:
        keys = commands.keys_of([binding], self.app.known_keys.keymap)
        title = binding.description[:1].upper() + binding.description[1:]
        return _Entry(binding.id or "", title, binding.tooltip, "  ".join(map(key_name, keys)))

    @action("help_narrow", "slash", "narrows")
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


_GAP = 3  # cells between two entries


class LeaderMenu(Bar[str]):
    """The menu after the leader key. Dismissed with the pressed key, or None after escape."""

    def content(self) -> ComposeResult:
        yield Static()

    def on_resize(self, event: events.Resize) -> None:
        self.query_one(Static).update(_menu(self._entries(), event.size.width - 2))

    def _entries(self) -> list[tuple[str, str]]:
        """Return key and short name of every command that has a key here; the help page has the titles."""
        entries: list[tuple[str, str]] = []
        for command in COMMANDS.values():
            keys = ["1–9"] if command.numbered else self.app.keys(command.id)
            if keys:
                entries.append((key_name(keys[0]), command.id.replace("_", " ")))
        return entries

    def on_key(self, event: events.Key) -> None:
        if event.key not in self.app.known_keys.of(Page)["close_dialog"]:
            event.stop()
            self.close(event.key)


def _menu(entries: list[tuple[str, str]], width: int) -> Content:
    """Lay out the entries in lines of ``width`` cells; no entry is broken across lines."""
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
    """Offers all commands in the palette."""

    if TYPE_CHECKING:

        @property
        def app(self) -> Program: ...  # pyright: ignore[reportIncompatibleMethodOverride]

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
