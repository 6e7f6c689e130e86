"""What a place that runs models offers, whether in this process or behind a network.

Any member of both engines may be used from any thread. Methods raise the errors of :mod:`.types`:
EngineClosed after ``close``, NotSupported for what ``capabilities`` names as missing.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from .capabilities import Feature
from .types import NotSupported

if TYPE_CHECKING:
    from .engine import Engine
    from .remote.engine import RemoteEngine

    Backend: TypeAlias = Engine | RemoteEngine
else:
    Backend = Any  # neither is loaded for its name

_SECONDS = 5.0  # to close all engines at the end; a step on a processor is given up in milliseconds
_running: weakref.WeakSet[Any] = weakref.WeakSet()
close_at_exit = _running.add
"""Close an engine when the program ends, should it still be there: its thread would decode on while the
process destroys llama.cpp's and OpenMP's own data, and crash."""


@atexit.register
def _close_all() -> None:
    for engine in list(_running):
        engine.close(_SECONDS)


WITHOUT_CACHE: Mapping[Feature, str] = {
    "embeddings": "the engine behind this server computes no embeddings",
    "session_files": "this engine keeps no sessions in files",
}
"""What :class:`WithoutCache` cannot do, and why."""


def _lacking(feature: Feature) -> Callable[..., Any]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise NotSupported(WITHOUT_CACHE[feature])

    return refuse


class WithoutCache:
    """Those members of a backend that need the model's own memory, for one that does not hold it."""

    adapters: tuple[tuple[str, float], ...] = ()
    embedder: Any = property(_lacking("embeddings"))
    save_session = load_session = _lacking("session_files")
