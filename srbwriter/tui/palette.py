"""The command palette: every command of the table, found by its name.

Knows the table and the write screen; the searching is Textual's.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from srbwriter.tui.commands import COMMANDS, Command
from srbwriter.tui.widgets.key_line import key_name

if TYPE_CHECKING:
    from srbwriter.tui.app import App


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
