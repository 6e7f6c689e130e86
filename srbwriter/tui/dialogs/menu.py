"""The menu of commands: every command by group, filtered by typing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from srbwriter.tui.commands import COMMANDS, Command
from srbwriter.tui.dialogs.picker import Choice, Picker
from srbwriter.tui.widgets.lines import key_name, matches

_KEY_CELLS = 9  # of the column of keys


@dataclass(frozen=True, slots=True)
class _Entry(Choice):
    """A command in the menu. ``value`` is its id and the number that a numbered command gets."""

    keys: tuple[str, ...] = ()
    """Its keys, as they are shown."""

    def matches(self, words: Sequence[str]) -> bool:
        return matches(words, *self._texts, COMMANDS[self.value[0]].help, self.group)

    def rank(self, words: Sequence[str]) -> int:
        """Return how well the entry matches: by its whole title, id or key, then by title, id, and help."""
        text = " ".join(words)
        title = self.title.casefold()
        exact = text in [one.casefold() for one in self._texts]
        found = (exact, title.startswith(text), matches(words, title), matches(words, self.value[0]), True)
        return found.index(True)

    @property
    def _texts(self) -> tuple[str, ...]:
        spelled = [key.replace("^", "ctrl+") for key in self.keys if len(key) > 1]
        return (self.title, self.value[0], *self.keys, *spelled)


class Menu(Picker):
    """All commands. Dismissed with the id and the number of the chosen one, or None."""

    OPENED_BY = "menu"

    def __init__(self, branches: int) -> None:
        """``branches`` is the number of branches that can be picked."""
        self._branches = branches
        choices = [entry for command in COMMANDS.values() for entry in self._entries(command)]
        foot = "type to narrow · ↑↓ move · enter runs it · esc closes"
        super().__init__("Menu of commands", choices, looked=self._explain, foot=foot)

    def content(self) -> ComposeResult:
        yield from super().content()
        yield Static(id="menu-help", markup=False)

    def _entries(self, command: Command) -> list[_Entry]:
        if command.id == self.OPENED_BY:
            return []
        if command.numbered:
            numbers = range(1, min(9, self._branches) + 1)
            return [self._entry(command, f"Pick branch {n}", (f"{n}",), n) for n in numbers] or [
                self._entry(command, command.title, ("1–9",))
            ]
        keys = dict.fromkeys((*self.app.keys(command.id), *self.app.anywhere(command.id)))
        return [self._entry(command, command.title, tuple(map(key_name, keys)))]

    def action_menu(self) -> None:
        self.close()

    @staticmethod
    def _entry(command: Command, title: str, keys: tuple[str, ...], number: int = 0) -> _Entry:
        return _Entry((command.id, number), title, group=command.group, keys=keys)

    @staticmethod
    def _label(choice: Choice) -> Content:
        keys = " ".join(choice.keys) if isinstance(choice, _Entry) else ""
        room = " " * max(1, _KEY_CELLS - cell_len(keys))
        return Content.assemble("  ", (keys, "bold $text-accent"), room, choice.title)

    def _explain(self, value: tuple[str, int]) -> None:
        """Show what the highlighted command does."""
        self.query_one("#menu-help", Static).update(COMMANDS[value[0]].help)
