"""The commands in Textual's palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.command import DiscoveryHit, Hit, Hits, Provider

from srbwriter.tui.commands import COMMANDS, Command, key_name

if TYPE_CHECKING:
    from srbwriter.tui.app import App


class CommandProvider(Provider):
    """Every command by its title, its id or its help; it runs on the write screen."""

    def _entries(self) -> Iterator[tuple[str, Command]]:
        """Yield the words of each entry, and its command."""
        app: App = self.app  # pyright: ignore[reportAssignmentType, reportUnknownMemberType]
        for command in COMMANDS.values():
            if not command.numbered:
                keys = [*app.known_keys.plain[command.id], *app.known_keys.anywhere[command.id]]
                yield f"{command.title}   {' '.join(map(key_name, keys))}".rstrip(), command

    async def discover(self) -> Hits:
        for words, command in self._entries():
            yield DiscoveryHit(words, partial(self._run, command), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, command in self._entries():
            exact = 100.0 * (query.casefold() in (command.id, command.title.casefold()))
            if score := exact or max(matcher.match(words), 0.5 * matcher.match(command.help)):
                yield Hit(score, matcher.highlight(words), partial(self._run, command), help=command.help)

    def _run(self, command: Command) -> None:
        self.app.run_on_desk(command.id)  # type: ignore[attr-defined]
