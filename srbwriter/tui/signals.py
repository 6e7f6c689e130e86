"""What the system and a lost connection tell the app to do: end in good order, or stop for a while."""

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
from srbwriter.tui.driver import TerminalDriver

if TYPE_CHECKING:
    from srbwriter.tui.app import App

_LOOK_SECONDS = 1.0  # between two looks at a terminal that may have gone
_KEYS_SECONDS = 0.1  # for keys on their way, which a signal overtakes
_CLOSING_SECONDS = 2.5  # from a signal to the end, unless the commit of the words takes longer


def obey_signals(app: App) -> None:
    """Let ``app`` save its words and end on SIGTERM, SIGHUP and without a terminal; save them on SIGTSTP."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP):
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
            loop.add_signal_handler(number, app.set_timer, _KEYS_SECONDS, partial(_end, app, number))
    if isinstance(driver := app._driver, TerminalDriver):  # pyright: ignore[reportPrivateUsage]
        driver.before_stop = partial(_keep_before_stop, app)
    if os.name == "posix" and os.isatty(0):
        app.set_interval(_LOOK_SECONDS, partial(_notice_hang_up, app))


def _notice_hang_up(app: App) -> None:
    """End as after a signal when the terminal has gone without one: its shell may have gone before."""
    if not os.isatty(0):
        _end(app, signal.SIGHUP)


def _keep_before_stop(app: App) -> None:
    """Save everything: a stopped program may never be continued."""
    with contextlib.suppress(StoryError):
        app.session.keep()


def _end(app: App, number: int) -> None:
    """Save everything in one commit and end; on a slow disk nothing else is done that waits for it.

    What closing would do more, the next start does, as after a kill.
    """
    latest = time.monotonic() + _CLOSING_SECONDS
    with contextlib.suppress(StoryError):  # words that the disk refuses lie elsewhere by now
        app.session.keep_last(app.knobs.keep)
    # The process that watches the terminal gives it back.
    deadline = threading.Timer(max(0.0, latest - time.monotonic()), os._exit, [128 + number])
    deadline.daemon = True
    deadline.start()
    app.exit(return_code=128 + number)
