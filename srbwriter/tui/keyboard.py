"""A queue of keys and pastes: each goes to the widget or screen that the previous one opened.

Textual sends a key to the widget that has the focus when the key arrives. Keys that arrive together, over a
slow line or from fast typing, would all go to the widget below a screen that the first key opens. Here a key
waits until the previous one has been fully processed. An escape directly followed by a key counts as two
keys, unless alt with that key has a meaning at the focus.

Two or more printable characters that arrive in one read of the terminal are text: a paste without brackets,
the output of an input method, or fast typing over a slow line. They are inserted. A run of one character that
is a command of the chosen branch, as from a held key, is that command as often.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual import events
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.message_pump import MessagePump
from textual.widgets import Input

from srbwriter.tui.prose import Prose

from .driver import ALT, ESC, ESCAPE_FIRST, Burst, Typed, is_text, report_error

if TYPE_CHECKING:
    from srbwriter.tui.app import App

_PATIENCE = 2.0  # seconds that a widget may take for a key before the next key is sent anyway
_MOST_TYPED = 60  # characters of one read that may have been typed
_CHAINS = 2  # a key bubbles up to the app, and its action can send another message that bubbles up


class Keyboard:
    """The queue of keys in front of an app. ``deliver`` sends one to the focused widget."""

    def __init__(self, app: App, deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        self._app, self._deliver = app, deliver
        self._waiting: deque[tuple[bool, deque[events.Key | events.Paste]]] = deque()
        """Keys that arrived in one read of the terminal, and whether what they type is text."""
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def open(self) -> None:
        """Start delivering, now that the first screen is up; keys that were pressed before go to it."""
        self._open = True
        if self._task is not None:  # it waits for what the key did that led here
            self._task.cancel()
        self._task = asyncio.create_task(self._run(opens=True))

    def hold(self) -> None:
        """Keep all keys from now on for the screen that calls :meth:`open` next."""
        self._open = False

    def close(self) -> None:
        """Drop the queue, because the app ends."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def take(self, event: events.Key | events.Paste | Burst) -> None:
        """Add a key, a paste or a burst to the queue."""
        keys = event.keys if isinstance(event, Burst) else [event]
        self._waiting.append((isinstance(event, Burst), deque(keys)))
        self._start()

    def _start(self) -> None:
        if self._open and self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def _run(self, opens: bool = False) -> None:
        if opens:  # the screen may have begun to open a dialog, which gets the first key
            await self._settled(self._app.screen)
        while self._open and self._waiting and self._task is asyncio.current_task():
            event = self._next()  # a task that was cancelled may go on: wait_for of Python 3.11 can lose that
            target: DOMNode = self._app.focused or self._app.screen
            try:
                if not await self._claimed(event):
                    await self._deliver(event)
            except Exception as error:  # this task runs outside Textual's loop, which would report it
                report_error(self._app, error)
                return
            await self._settled(target)

    def _next(self) -> events.Key | events.Paste:
        """Remove the next key or paste from the queue; the text of one read is returned as one paste."""
        is_burst, keys = self._waiting[0]
        event = keys.popleft()
        if isinstance(event, events.Key) and event.key == ESCAPE_FIRST:
            event = events.Key("escape", ESC)
        elif isinstance(event, events.Key) and self._is_two(event):
            name = event.key.removeprefix(ALT)
            name = event.character or name if name.startswith("shift+") else name
            keys.appendleft(events.Key(name, event.character))
            event = events.Key("escape", ESC)
        elif is_burst and is_text(event):
            run = [event]
            while keys and is_text(key := keys[0]):
                run.append(key)
                keys.popleft()
            text = "".join(key.character or "" for key in run)
            if self._app.write_screen.is_run_of_commands(text):
                self._waiting.appendleft((False, deque(run[1:])))
            else:
                event = Typed(text) if len(text) <= _MOST_TYPED else events.Paste(text)
        while self._waiting and not self._waiting[0][1]:
            self._waiting.popleft()
        return event

    async def _claimed(self, event: events.Key | events.Paste) -> bool:
        """Return True if the write screen used the key itself, or the text has no receiver."""
        app, name = self._app, event.key if isinstance(event, events.Key) else ""
        if name in ("pageup", "pagedown") and (panel := app.screen.query("KeyPanel")):
            panel.only_one().scroll_relative(
                y=panel.only_one().size.height * (1 if name == "pagedown" else -1)
            )
            return True
        if app.write_screen.on_top:
            if app.write_screen.use_key(event):
                return True
            if app.write_screen.on_branch and isinstance(event, events.Paste):
                app.write_screen.go_to_story()
                await self._settled(app.screen)
        elif isinstance(event, events.Paste) and not isinstance(app.focused, Input | Prose):
            app.notify("The typed text was ignored: there is no text field here. Press one key at a time.")
            return True
        return False

    def _is_two(self, event: events.Key) -> bool:
        """Return whether alt with this key means escape and the key; not if the terminal tells them apart."""
        if event.character is None or not event.key.startswith(ALT):
            return False
        meant = event.key in self._app.screen.active_bindings or event.key in self._app.known_keys.on_branch
        return not meant

    async def _settled(self, target: DOMNode) -> None:
        """Wait until widgets, screen and app have processed everything that a key to ``target`` triggered."""
        app, chains = self._app, _CHAINS
        while chains and app.is_running and self._open:
            before = app.screen, app.focused
            node: DOMNode | None = target
            while node is not None:
                await _passed(node)
                node = node.parent
            await _passed(app.screen)
            await _passed(app)  # the app moves the focus
            if isinstance(app.screen, CommandPalette):  # enter is for what it finds
                searches = [worker for worker in app.workers if worker.node is app.screen]
                if searches:  # without any, Textual waits for all, also for one that waits for a key
                    await app.workers.wait_for_complete(searches)  # pyright: ignore[reportUnknownMemberType]
            changed = before != (app.screen, app.focused) or not app.screen.is_mounted
            target, chains = app.focused or app.screen, _CHAINS if changed else chains - 1


async def _passed(node: MessagePump) -> None:
    """Wait until ``node`` has processed its current message queue."""
    done = asyncio.Event()
    if node.is_running and node.call_later(done.set):
        try:
            await asyncio.wait_for(done.wait(), _PATIENCE)
        except TimeoutError:  # it was removed meanwhile, or is very busy
            return
