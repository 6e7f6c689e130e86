"""The one reader of running branches: a timer that looks at their buffers and paints what is new.

The engine never waits for it and no message is sent for a token. Where painting is dear it paints less often,
and while nothing runs it looks rarely.
"""

from __future__ import annotations

import gc
import os
import time
from typing import TYPE_CHECKING

from textual.timer import Timer

if TYPE_CHECKING:
    from srbwriter.tui.write_screen import WriteScreen

FPS, FPS_REMOTE = 24, 12  # a network link carries every repainted cell
_KEY_SECONDS, _LONGEST_SECONDS = 0.05, 0.2  # how long painting waits behind a key, and at most
_SHARE = 0.06  # of a core for painting: the engine needs the interpreter for every step
_IDLE_TICKS = 6
_SLOW_TICKS = 6  # status and marks change more slowly than text
_REST_SECONDS = 2.0  # without a key, while nothing is written
_NEVER = 10**6
_GARBAGE = 20  # collections of what is young, after which a rest is used for one of all


class Pump:
    """Calls the write screen's ``flush`` and ``flush_slowly`` on one timer."""

    def __init__(self, screen: WriteScreen, fps: int | None) -> None:
        self._screen = screen
        self.fps = fps or (FPS_REMOTE if "SSH_CONNECTION" in os.environ else FPS)
        self._ticks = 0
        self._awake = 0
        self._key_at = self._painted_at = self._spent = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._screen.set_interval(1 / self.fps, self.tick)

    def settle(self) -> None:
        """The first screen stands, and what has been made for it stays.

        The collector need not look through that again: with all the modules it takes a tenth of a second, in
        which no key is answered. Nor does it look through all that came after while the writer is at work.
        """
        if self._screen.app.is_headless:  # somebody else's process
            return
        if gc.get_freeze_count():  # the story before this one has left its screen
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.set_threshold(*gc.get_threshold()[:2], _NEVER)
        gc.enable()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()

    def wake(self) -> None:
        """Something was asked for: look at every tick for a while, from now on."""
        self._awake = 2 * self.fps

    def give_way(self) -> None:
        """A key was pressed: what it does is painted before what branches write."""
        self._key_at = time.monotonic()

    def tick(self) -> None:
        self._ticks += 1
        self._awake -= 1
        now = time.monotonic()
        if now - self._key_at < _KEY_SECONDS and now - self._painted_at < _LONGEST_SECONDS:
            return
        spent = time.thread_time() - self._spent  # by this thread since it last painted, painting included
        if now - self._painted_at < min(spent / _SHARE, _LONGEST_SECONDS):
            return
        self._painted_at, self._spent = now, time.thread_time()
        if not self._screen.writing and self._awake < 0:
            if now - self._key_at > _REST_SECONDS and gc.get_count()[2] > _GARBAGE:
                gc.collect()
            if self._ticks % _IDLE_TICKS:
                return
        try:
            self.flush(slowly=self._ticks % _SLOW_TICKS == 0)
        except Exception as error:
            self._screen.admit(error, again=False)  # it may come with every look

    def flush(self, slowly: bool = True) -> None:
        """Paint everything that is new now."""
        with self._screen.app.batch_update():
            self._screen.flush()
            if slowly:
                self._screen.flush_slowly()
