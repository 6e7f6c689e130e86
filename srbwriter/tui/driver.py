"""What srbwriter uses of Textual that is not public: driver, parser of keys, how an app ends.

The driver survives being stopped and sent on in every way that a system has.
Textual 8.2.8 starts a thread that reads the terminal whenever the process is sent on, and counts on having
ended the one before when it was stopped. SIGSTOP gives no notice, so two threads shared what came in, and the
first of them never ended. Here there is one, and after every SIGCONT the terminal is in the modes it was in.
The parser keeps an escape apart from the key behind it, and tells which keys arrived in one read.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, TypeGuard, cast

from rich.text import Text
from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers import linux_driver
from textual.drivers.linux_driver import (
    KITTY_DISAMBIGUATE_ESCAPE_CODES,
    KITTY_REPORT_ALL_KEYS,
    KITTY_REPORT_ASSOCIATED_TEXT,
    LinuxDriver,
)
from textual.message import Message
from textual.screen import Screen

TEXTUAL = "8.2.8"
"""The version of Textual that this module was written against."""

ESC, TAB = "\x1b", "\t"
ALT, ESCAPE_FIRST = "alt+", "escape_before_a_key"
_TEXT = 2  # printable characters in one read that are text
_KITTY_FLAGS = KITTY_DISAMBIGUATE_ESCAPE_CODES | KITTY_REPORT_ALL_KEYS | KITTY_REPORT_ASSOCIATED_TEXT


class TerminalDriver(LinuxDriver):
    """Textual's driver for Linux and macOS with one reader of the terminal."""

    before_stop: Callable[[], object] = staticmethod(lambda: None)
    """Called in the event loop before the process stops itself, while the app still has the terminal."""

    _suspended = False  # the terminal was given back, to be taken again
    _stopping = False  # the event loop is about to stop the process

    @property
    def _reads(self) -> bool:
        """Whether the terminal is in application mode, and a thread reads it."""
        return self._key_thread is not None and self._key_thread.is_alive()

    def suspend_application_mode(self) -> None:
        self._suspended = True
        super().suspend_application_mode()

    def start_application_mode(self) -> None:
        super().start_application_mode()
        self._suspended = not self._reads  # false also in the background, where nothing is started

    def _sigtstp_application(self, *_: object) -> None:
        if not self._reads:  # another program has the terminal, or nobody any more
            os.kill(os.getpid(), signal.SIGSTOP)
        elif not self._stopping:
            self._stopping = True
            self._loop.call_soon_threadsafe(self._stop_process)

    def _stop_process(self) -> None:
        self._stopping = False
        self.before_stop()
        super()._sigtstp_application()  # pyright: ignore[reportUnknownMemberType]

    def _sigcont_application(self, *_: object) -> None:
        if not self._auto_restart:
            return
        if self._suspended:
            self.resume_application_mode()
            self._loop.call_soon_threadsafe(lambda: self._app.refresh(layout=True))
        elif self._reads:  # stopped without notice; not from here, where a lock of the writer may be held
            self._loop.call_soon_threadsafe(self._restore_modes)

    def _restore_modes(self) -> None:
        """Set the terminal as :meth:`start_application_mode` does, and have everything painted again.

        Another program, as a rule a shell, may have left the terminal in modes of its own.
        """
        if not self._reads:
            return
        try:
            attributes = termios.tcgetattr(self.fileno)
            attributes[tty.LFLAG] = self._patch_lflag(attributes[tty.LFLAG])
            attributes[tty.IFLAG] = self._patch_iflag(attributes[tty.IFLAG])
            attributes[tty.CC][termios.VMIN] = 1
            # First: in the background this stops the process again, before anything is drawn.
            termios.tcsetattr(self.fileno, termios.TCSANOW, attributes)
        except termios.error:
            return
        self.write("\x1b[?1049h")  # alternate screen
        self.write("\x1b[?25l")  # no cursor
        self.write("\x1b[?1004h")  # focus reports
        if not constants.DISABLE_KITTY_KEY:
            self.write(f"\x1b[={_KITTY_FLAGS};1u")  # set, not pushed: one is taken off at the end
        self._enable_mouse_support()
        self._query_in_band_window_resize()
        self._disable_line_wrap()
        self._enable_bracketed_paste()
        self.flush()
        self._app.refresh(layout=True)


def driver_of(app: App[Any]) -> Driver | None:
    """Return what an app writes to its terminal with; None before it runs."""
    return app._driver  # pyright: ignore[reportPrivateUsage]


def report_error(app: App[Any], error: Exception) -> None:
    """End an app with an error, as Textual does with one that a handler of a message raised."""
    app._handle_exception(error)  # pyright: ignore[reportPrivateUsage]


def as_first(screen: Screen[Any]) -> Screen[Any]:
    """Prepare a screen that is not pushed to be switched for another one."""
    screen._push_result_callback(screen, None)  # pyright: ignore[reportPrivateUsage]
    return screen


class FailingApp(App[None]):
    """An app that ends in words where it fails, with our driver for a terminal of Linux or macOS."""

    def get_driver_class(self) -> type[Driver]:
        chosen = super().get_driver_class()
        return TerminalDriver if chosen is LinuxDriver else chosen

    def failure_words(self, error: Exception) -> str:
        """The message on the terminal, instead of a page of code, when ``error`` ends the app."""
        raise NotImplementedError

    def _fatal_error(self) -> None:
        self._exit_renderables.append(Text(self.failure_words(self._exception or RuntimeError("unknown"))))
        self._close_messages_no_wait()


class Burst(events.Event):
    """Keys and pastes of one read of the terminal that holds two or more printable characters."""

    def __init__(self, keys: Sequence[events.Key | events.Paste]) -> None:
        self.keys = keys
        super().__init__()


class Typed(events.Paste):
    """Text of one read, but no paste: of an input method, or typed over a slow line."""


Typed.handler_name = events.Paste.handler_name


class _Parser(XTermParser):
    """Keeps the escape of a key that comes right behind it, of any key.

    A terminal sends the same for alt and a key as for the two one after the other. Textual takes it for alt
    and a letter, for shift and tab, and for what a Mac writes with option and a digit; before other keys it
    forgets the escape. What is left to it is alt with backspace, ``f`` and ``b``, by which words are edited.
    """

    def feed(self, data: str) -> Iterable[Message]:
        """Return the events of one read; its keys together where they are text."""
        found = list(super().feed(data))
        alt = (isinstance(e, events.Key) and e.character and e.key.startswith(ALT) for e in found)  # or esc
        if sum(map(bool, alt)) + sum(map(is_text, found)) < _TEXT:
            return found
        parts: list[Message] = []
        for typed, group in groupby(found, lambda event: isinstance(event, events.Key | events.Paste)):
            some = list(group)
            parts += [Burst(cast("list[events.Key | events.Paste]", some))] if typed else some
        return parts

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence == ESC:  # of two keys that the next escape has ended: Textual would write ^ for it
            yield events.Key(ESCAPE_FIRST, ESC)
            return
        if sequence == ESC + TAB or (
            len(sequence) == 2 and isinstance(ANSI_SEQUENCES_KEYS.get(sequence), str)
        ):
            sequence, alt = sequence[1], True
        for key in super()._sequence_to_key_events(sequence):
            name = f"shift+{key.key.lower()}" if key.key.isupper() else key.key
            yield events.Key(f"{ALT}{name}", key.character) if alt else key


linux_driver.XTermParser = _Parser  # pyright: ignore[reportPrivateImportUsage]


def is_text(event: Message) -> TypeGuard[events.Key]:
    """Whether a key writes a character: printable, or a joiner or special space that is part of a word."""
    if not isinstance(event, events.Key) or not event.character or "+" in event.key:
        return False
    return unicodedata.category(event.character[0]) not in ("Cc", "Cs")
