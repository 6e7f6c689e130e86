"""The terminal's driver: Textual's, which survives being stopped and sent on in every way a system has.

Textual 8.2.8 starts a thread that reads the terminal whenever the process is sent on, and counts on having
ended the one before when it was stopped. SIGSTOP gives no notice, so two threads shared what came in, and the
first of them never ended. Here there is one, and after every SIGCONT the terminal is in the modes it was in.
"""

from __future__ import annotations

import os
import signal
import termios
import tty
from collections.abc import Callable

from textual import constants
from textual.drivers.linux_driver import (
    KITTY_DISAMBIGUATE_ESCAPE_CODES,
    KITTY_REPORT_ALL_KEYS,
    KITTY_REPORT_ASSOCIATED_TEXT,
    LinuxDriver,
)

TEXTUAL = "8.2.8"
"""The version of Textual whose driver this module was written against."""

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
        elif self._reads:  # stopped without notice; not from here, where a lock of the writer may be held
            self._loop.call_soon_threadsafe(self._restore_modes)

    def _restore_modes(self) -> None:
        """Set the terminal as :meth:`start_application_mode` does, and have everything painted again.

        Whoever had the terminal meanwhile, as a rule a shell, may have left it in modes of its own.
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
