"""Keys and pastes one after the other: each goes to what the one before it has opened.

Textual hands a key to the widget that has the focus when the key arrives. Keys that arrive together, over a
slow line or from quick hands, would so all go to the widget below a screen that the first of them opens. Here
a key waits until everything that the one before it set off has been done. An escape and a key right behind it
are two keys, unless alt with that key means something where they go.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message_pump import MessagePump

if TYPE_CHECKING:
    from srbwriter.tui.app import App

_PATIENCE = 2.0  # seconds that a widget may take for a key before the next one goes on without it
ESC, TAB = "\x1b", "\t"
_ALT, _FIRST = "alt+", "escape_before_a_key"
_CHAINS = 2  # a key goes up to the app, and what its binding does sends a message up once more


class Keyboard:
    """The line of keys in front of an app. ``deliver`` hands one to the widget that has the focus."""

    def __init__(self, app: App, deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        linux_driver.XTermParser = _Parser  # pyright: ignore[reportPrivateImportUsage]
        self._app, self._deliver = app, deliver
        self._waiting: deque[events.Key | events.Paste] = deque()
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def open(self) -> None:
        """The first screen stands: keys that were pressed before go to it."""
        self._open = True
        self._go_on()

    def close(self) -> None:
        """The app ends; what is still in line is nobody's."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def take(self, event: events.Key | events.Paste) -> None:
        """Put a key or a paste into the line."""
        first = isinstance(event, events.Key) and event.key == _FIRST
        self._waiting.append(events.Key("escape", ESC) if first else _with_ink(event))
        self._go_on()

    def _go_on(self) -> None:
        if self._open and self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            event = self._waiting.popleft()
            if isinstance(event, events.Key) and self._is_two(event):
                self._waiting.appendleft(_behind_escape(event))
                event = events.Key("escape", ESC)
            target: MessagePump = self._app.focused or self._app.screen
            try:
                await self._deliver(event)
            except Exception as error:  # Textual's own loop, which would have seen it, is not around us
                self._app._handle_exception(error)  # pyright: ignore[reportPrivateUsage]
                return
            await self._settled(target)

    def _is_two(self, event: events.Key) -> bool:
        """Whether alt with a key is an escape and the key: never where a terminal tells them apart."""
        if event.character is None or not event.key.startswith(_ALT):
            return False
        meant = event.key in self._app.screen.active_bindings or event.key in self._app.known_keys.on_branch
        return not meant

    async def _settled(self, target: MessagePump) -> None:
        """Wait until widgets, screen and app have done what a key to ``target`` set off."""
        app, chains = self._app, _CHAINS
        while chains and app.is_running:
            before = app.screen, app.focused
            node: MessagePump | None = target
            while node is not None:
                await _passed(node)
                node = node._parent  # pyright: ignore[reportPrivateUsage]
            await _passed(app.screen)
            await _passed(app)  # which moves the focus
            changed = before != (app.screen, app.focused)
            target, chains = app.focused or app.screen, _CHAINS if changed else chains - 1


async def _passed(node: MessagePump) -> None:
    """Wait until ``node`` has done all that is in its line now."""
    done = asyncio.Event()
    if node.is_running and node.call_later(done.set):
        try:
            await asyncio.wait_for(done.wait(), _PATIENCE)
        except TimeoutError:  # it was taken off the screen meanwhile, or is very busy
            return


class _Parser(XTermParser):
    """Keeps the escape of a key that comes right behind it, whatever that key is.

    A terminal sends the same for alt and a key as for the two one after the other. Textual takes it for alt
    and a letter, for shift and tab, and for what a Mac writes with option and a digit; before other keys it
    forgets the escape. What is left to it is alt with backspace, ``f`` and ``b``, by which words are edited.
    """

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == ESC:  # of two keys that the next escape has ended: Textual would write ^ for it
            yield events.Key(_FIRST, ESC)
            return
        if sequence == ESC + TAB or (
            len(sequence) == 2 and isinstance(ANSI_SEQUENCES_KEYS.get(sequence), str)
        ):
            sequence, alt = sequence[1], True
        for key in super()._sequence_to_key_events(sequence):
            name = f"shift+{key.key.lower()}" if key.key.isupper() else key.key
            yield events.Key(f"{_ALT}{name}", key.character) if alt else key


def _behind_escape(event: events.Key) -> events.Key:
    """The key that came with an escape right before it."""
    name = event.key.removeprefix(_ALT)
    return events.Key(event.character or name if name.startswith("shift+") else name, event.character)


def _with_ink(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """A key that the editors of Textual take, whatever its character.

    They insert printable characters only, and drop special spaces, joiners and the soft hyphen, which Python
    does not call printable, unless they are pasted.
    """
    character = event.character if isinstance(event, events.Key) else None
    if character and not character.isprintable() and unicodedata.category(character[0]) not in ("Cc", "Cs"):
        return events.Paste(character)
    return event
