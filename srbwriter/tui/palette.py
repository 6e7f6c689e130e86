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

    def _entries(self) -> Iterator[tuple[str, Command, int]]:
        """Yield the words of each entry, its command, and the number that a numbered one gets."""
        app: App = self.app  # pyright: ignore[reportAssignmentType, reportUnknownMemberType]
        current = app.session.round
        for command in COMMANDS.values():
            if command.numbered:
                count = min(9, len(current.branches) if current is not None else 0)
                yield from (
                    (f"Pick branch {number}   {number}", command, number) for number in range(1, count + 1)
                )
                continue
            keys = [*app.known_keys.plain.get(command.id, []), *app.known_keys.anywhere.get(command.id, [])]
            yield f"{command.title}   {' '.join(map(key_name, keys))}".rstrip(), command, 0

    async def discover(self) -> Hits:
        for words, command, number in self._entries():
            yield DiscoveryHit(words, partial(self._run, command, number), help=command.help)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for words, command, number in self._entries():
            exact = 100.0 * (query.casefold() in (command.id, command.title.casefold()))
            if score := exact or max(matcher.match(words), 0.5 * matcher.match(command.help)):
                run = partial(self._run, command, number)
                yield Hit(score, matcher.highlight(words), run, help=command.help)

    def _run(self, command: Command, number: int) -> None:
        self.app.run_on_desk(command.id, number)  # type: ignore[attr-defined]
