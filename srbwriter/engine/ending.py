"""Close engines that are still open at the end of the program.

Their threads would decode on while the process destroys llama.cpp's and OpenMP's own data, and crash.
"""

from __future__ import annotations

import atexit
import weakref
from typing import Any

_SECONDS = 5.0  # for all of them; a step on a processor is given up in milliseconds
_running: weakref.WeakSet[Any] = weakref.WeakSet()

close_at_exit = _running.add
"""Close an engine when the program ends, should it still be there."""


@atexit.register
def _close_all() -> None:
    for engine in list(_running):
        engine.close(_SECONDS)
