"""Keys and pastes one after the other: each goes to what the one before it has opened.

Textual hands a key to the widget that has the focus when the key arrives. Keys that arrive together, over a
slow line or from quick hands, would so all go to the widget below a screen that the first of them opens. Here
a key waits until everything that the one before it set off has been done. An escape and a key right behind it
are two keys, unless alt with that key means something where they go.

Two or more printable characters that arrive in one read of the terminal are text: a paste without brackets,
what an input method commits, fast typing over a slow line. They are inserted, and never run as commands.
"""

from __future__ import annotations

import asyncio
import unicodedata
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, TypeGuard, cast

from textual import events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.drivers import linux_driver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widgets import Input, TextArea

if TYPE_CHECKING:
    from srbwriter.tui.app import App

_PATIENCE = 2.0  # seconds that a widget may take for a key before the next one goes on without it
ESC, TAB = "\x1b", "\t"
_ALT, _FIRST = "alt+", "escape_before_a_key"
_TEXT = 2  # printable characters in one read that are text
_CHAINS = 2  # a key goes up to the app, and what its binding does sends a message up once more


class Burst(events.Event):
    """Keys and pastes of one read of the terminal that holds two or more printable characters."""

    def __init__(self, keys: Sequence[events.Key | events.Paste]) -> None:
        self.keys = keys
        super().__init__()


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A key or paste in the line. ``burst`` is the read that it arrived in, where that holds text."""

    event: events.Key | events.Paste
    burst: Burst | None = None


class Keyboard:
    """The line of keys in front of an app. ``deliver`` hands one to the widget that has the focus."""

    def __init__(self, app: App, deliver: Callable[[events.Event], Awaitable[None]]) -> None:
        linux_driver.XTermParser = _Parser  # pyright: ignore[reportPrivateImportUsage]
        self._app, self._deliver = app, deliver
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None
        self._open = False

    def open(self, asked: bool = False) -> None:
        """The first screen stands: keys that were pressed before go to it.

        Where it asks something (``asked``), what was typed before is no answer, and goes into the story.
        """
        if asked:
            text = "".join(
                waiting.event.character or "" for waiting in self._waiting if _is_text(waiting.event)
            )
            self._waiting.clear()
            if text:
                self._app.write_screen.editor.post_message(events.Paste(text))
        self._open = True
        self._go_on()

    @property
    def is_open(self) -> bool:
        """Whether the first screen stands, with the question that it may begin with."""
        return self._open

    def close(self) -> None:
        """The app ends; what is still in line is nobody's."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()

    def take(self, event: events.Key | events.Paste | Burst) -> None:
        """Put a key, a paste or a burst into the line."""
        burst = event if isinstance(event, Burst) else None
        for key in event.keys if isinstance(event, Burst) else [event]:
            first = isinstance(key, events.Key) and key.key == _FIRST
            ready = events.Key("escape", ESC) if first else key if burst else _with_ink(key)
            self._waiting.append(_Waiting(ready, burst))
        self._go_on()

    def _go_on(self) -> None:
        if self._open and self._waiting and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while self._waiting:
            event = self._next()
            target: MessagePump = self._app.focused or self._app.screen
            try:
                if not await self._claimed(event):
                    await self._deliver(event)
            except Exception as error:  # Textual's own loop, which would have seen it, is not around us
                self._app._handle_exception(error)  # pyright: ignore[reportPrivateUsage]
                return
            await self._settled(target)

    def _next(self) -> events.Key | events.Paste:
        """Take the next key or paste out of the line; the text of a burst comes as one paste."""
        waiting = self._waiting.popleft()
        event, burst = waiting.event, waiting.burst
        if isinstance(event, events.Key) and self._is_two(event):
            self._waiting.appendleft(_Waiting(_behind_escape(event), burst))
            return events.Key("escape", ESC)
        if burst is None or not _is_text(event):
            return event
        text = event.character or ""
        while self._waiting and self._waiting[0].burst is burst:
            event = self._waiting[0].event
            if not _is_text(event):
                break
            text += event.character or ""
            self._waiting.popleft()
        return events.Paste(text)

    async def _claimed(self, event: events.Key | events.Paste) -> bool:
        """Whether the write screen uses the key itself, or nothing here takes the text."""
        app, desk = self._app, self._app.write_screen
        if app.screen is desk:
            if desk.use_key(event):
                return True
            if desk.wants_in_story(event):
                desk.go_to_story()
                await self._settled(desk)
        elif isinstance(event, events.Paste) and not isinstance(app.focused, Input | TextArea):
            app.notify("Text was not used: nothing here takes it. Press one key at a time.")
            return True
        return False

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

    def feed(self, data: str) -> Iterable[Message]:
        """Return the events of one read; its keys together where they are text."""
        found = list(super().feed(data))
        if sum(_is_text(event) or _is_alt(event) for event in found) < _TEXT:
            return found
        parts: list[Message] = []
        for typed, group in groupby(found, lambda event: isinstance(event, events.Key | events.Paste)):
            some = list(group)
            parts += [Burst(cast("list[events.Key | events.Paste]", some))] if typed else some
        return parts

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


def _is_text(event: Message) -> TypeGuard[events.Key]:
    """Whether a key writes a character: printable, or a joiner or special space that is part of a word."""
    if not isinstance(event, events.Key) or not event.character or "+" in event.key:
        return False
    return unicodedata.category(event.character[0]) not in ("Cc", "Cs")


def _is_alt(event: Message) -> bool:
    """Whether a key may be an escape and a character right behind it."""
    return isinstance(event, events.Key) and event.character is not None and event.key.startswith(_ALT)


def _behind_escape(event: events.Key) -> events.Key:
    """The key that came with an escape right before it."""
    name = event.key.removeprefix(_ALT)
    return events.Key(event.character or name if name.startswith("shift+") else name, event.character)


def _with_ink(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """A key that the editors of Textual take, whatever its character.

    They insert printable characters only, and drop special spaces, joiners and the soft hyphen, which Python
    does not call printable, unless they are pasted.
    """
    if _is_text(event) and event.character and not event.character.isprintable():
        return events.Paste(event.character)
    return event
