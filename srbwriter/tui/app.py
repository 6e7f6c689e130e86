"""The terminal app: theme, keymap, screens and the life of the session. Nothing else.

It works over one Session and never touches the engine's insides or the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.app import App

from srbwriter.config import Settings
from srbwriter.tui import options
from srbwriter.tui.commands import COMMANDS, Command, anywhere_of, keys_of
from srbwriter.tui.screens.desk import Desk

if TYPE_CHECKING:
    from srbwriter.session import Session


class Workbench(App[None]):
    """The program in a terminal."""

    TITLE = "srbwriter"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self, session: Session, settings: Settings, own_keys: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.session = session
        self.settings = settings
        self._own_keys = dict(own_keys or {})
        self.branch_keys = self._index_keys()
        self.desk = Desk(session, self)

    # ---- settings, as the screens ask for them

    @property
    def fps(self) -> int | None:
        return self.settings[options.FPS]

    @property
    def layout_name(self) -> str:
        return self.settings[options.LAYOUT]

    @property
    def goes_on(self) -> bool:
        """True if new branches are written as soon as one is picked."""
        return self.settings[options.CONTINUE]

    def keys(self, command: Command) -> list[str]:
        """The keys that run ``command`` on a branch."""
        return keys_of(command, self.settings[options.KEYMAP], self._own_keys)

    def anywhere(self, command: Command) -> list[str]:
        """The keys that run ``command`` whatever has the focus."""
        return anywhere_of(command, self._own_keys)

    def _index_keys(self) -> dict[str, tuple[Command, int]]:
        index: dict[str, tuple[Command, int]] = {}
        for command in COMMANDS:
            for number, key in enumerate(self.keys(command), 1):
                index[key] = (command, number)
        return index

    def remember_layout(self, name: str) -> None:
        """Keep the layout for the next time."""

    # ---- life

    def on_mount(self) -> None:
        self.push_screen(self.desk)
        self._obey_signals()

    def _obey_signals(self) -> None:
        """Leave in good order, words saved, when the system or a lost connection ends the program."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(number, self._end, number)

    def _end(self, number: int) -> None:
        self.desk.commit()
        self.exit(return_code=128 + number)

    def on_unmount(self) -> None:
        self.session.close()
