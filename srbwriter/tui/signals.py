"""Signals and lost terminals: end cleanly, or save before the program is suspended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from srbwriter.story import StoryError
from srbwriter.tui.driver import TerminalDriver, driver_of

if TYPE_CHECKING:
    from srbwriter.tui.app import App

_LOOK_SECONDS = 1.0  # interval of checks whether the terminal is still there
_KEYS_SECONDS = 0.1  # delay for keys that were pressed before the signal
_GIVING_BACK_SECONDS = 0.5  # in which Textual restores the terminal
_CLOSING_SECONDS = 2.5  # from a signal to the exit, unless saving takes longer


def obey_signals(app: App) -> None:
    """Make ``app`` save and end on SIGTERM, SIGHUP and a lost terminal, and save on SIGTSTP."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, app.set_timer, _KEYS_SECONDS, partial(_end, app, number))
    if isinstance(driver := driver_of(app), TerminalDriver):
        driver.before_stop = partial(_save, app)  # a stopped program may never be continued
    if os.name == "posix" and os.isatty(0):
        # No signal comes if the shell of a terminal that goes has ended first.
        app.set_interval(_LOOK_SECONDS, lambda: os.isatty(0) or _end(app, signal.SIGHUP))


def _save(app: App) -> None:
    app.write_screen.keep_view()
    with contextlib.suppress(StoryError):
        app.session.save()


def _end(app: App, number: int) -> None:
    """Save everything in one commit and exit; on a slow disk, do nothing else that waits for it.

    The next start does the rest of the cleanup, as after a kill.
    """
    latest = time.monotonic() + _CLOSING_SECONDS
    app.write_screen.keep_view()
    with contextlib.suppress(StoryError):  # text that cannot be saved has been rescued elsewhere by now
        app.session.keep_last(app.knobs.keep)
    rest = max(_GIVING_BACK_SECONDS, latest - time.monotonic())
    deadline = threading.Timer(rest, os._exit, [128 + number])
    deadline.daemon = True
    deadline.start()
    app.exit(return_code=128 + number)
