"""Close engines that are still open at the end of the program.

Their threads would decode on while the process destroys llama.cpp's and OpenMP's own data, and crash. Knows
that an engine can be closed, and nothing else.
"""

from __future__ import annotations

import atexit
import weakref
from typing import Protocol

_SECONDS = 5.0  # for all of them; a step on a processor is given up in milliseconds


class Closable(Protocol):
    def close(self, timeout: float = ...) -> None: ...


_running: weakref.WeakSet[Closable] = weakref.WeakSet()


def close_at_exit(engine: Closable) -> None:
    """Close ``engine`` when the program ends, should it still be there."""
    _running.add(engine)


@atexit.register
def _close_all() -> None:
    for engine in list(_running):
        engine.close(_SECONDS)
