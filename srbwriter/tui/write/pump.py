"""A timer that reads the buffers of running branches and paints new text.

The engine never waits for it, and no message is sent per token. Where painting is slow, it paints less often;
while nothing runs, it polls rarely.
"""

from __future__ import annotations

import gc
import os
import time
from threading import Event
from typing import TYPE_CHECKING

from textual.timer import Timer

if TYPE_CHECKING:
    from srbwriter.tui.write.screen import WriteScreen

FPS, FPS_REMOTE = 24, 12  # a network link carries every repainted cell
_KEY_SECONDS, _LONGEST_SECONDS = 0.05, 0.2  # how long painting is delayed by a key, and at most in all
_PANES = 4  # painted at one tick: a key that comes meanwhile waits for no more
_SHARE = 0.06  # of a core for painting: the engine needs the interpreter for every step
_IDLE_TICKS = 6
_SLOW_TICKS = 6  # status and marks change more slowly than text
FIRST_SCREEN = Event()
"""Set once the first screen of this process is up."""


class Pump:
    """Calls the write screen's ``flush`` and ``flush_slowly`` on one timer."""

    def __init__(self, screen: WriteScreen) -> None:
        self._screen = screen
        self.fps = FPS_REMOTE if "SSH_CONNECTION" in os.environ else FPS
        self._ticks = 0
        self._awake = 0
        self._slow_due = False  # the next painting includes what changes slowly
        self._key_at = self._painted_at = self._spent = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        self._timer = self._screen.set_interval(1 / self.fps, self.tick)

    def settle(self) -> None:
        """Freeze the objects that exist once the first screen is up, for the garbage collector.

        A collection that includes all modules takes a tenth of a second, during which no key is processed.
        """
        if not self._screen.app.is_headless:  # else the process belongs to a test or another program
            gc.freeze()
            gc.set_threshold(700, 10, 200)  # a full one, which takes 40 ms, is rare
            gc.enable()
        FIRST_SCREEN.set()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()

    def wake(self) -> None:
        """Paint everything at the next tick, and poll at every tick for a while: something was started."""
        self._awake, self._slow_due = 2 * self.fps, True

    def give_way(self) -> None:
        """Delay painting of branches, because a key was pressed and its effect comes first."""
        self._key_at = time.monotonic()

    def tick(self) -> None:
        self._ticks += 1
        self._awake -= 1
        now, shown = time.monotonic(), len(self._screen.grid.shown)
        longest = _LONGEST_SECONDS * min(1, _PANES / max(1, shown))
        if now - self._key_at < _KEY_SECONDS and now - self._painted_at < longest:
            return
        spent = time.thread_time() - self._spent  # CPU time of this thread since before the last painting
        if now - self._painted_at < min(spent / _SHARE, longest):
            return
        self._painted_at, self._spent = now, time.thread_time()
        if not self._screen.writing and self._awake < 0 and self._ticks % _IDLE_TICKS:
            return
        try:
            slowly = self._slow_due or self._ticks % _SLOW_TICKS == 0
            most = 0 if slowly and shown > _PANES else _PANES
            self.flush(slowly, most if self._screen.writing else None)
        except Exception as error:
            self._screen.admit(error, again=False)  # it may recur at every tick

    def flush(self, slowly: bool = True, most: int | None = None) -> None:
        """Paint everything that is new, of ``most`` panes."""
        self._slow_due = self._slow_due and not slowly
        with self._screen.app.batch_update():
            self._screen.flush(most)
            if slowly:
                self._screen.flush_slowly()
