"""What the server needs of whatever brings its model up."""

from __future__ import annotations

from typing import Protocol

from srbwriter.engine.backend import Backend


class Loader(Protocol):
    """Brings a backend up in the background. ``state`` is INIT, LOADING, READY or FAILED."""

    @property
    def state(self) -> str: ...
    @property
    def engine(self) -> Backend | None: ...
    @property
    def error(self) -> Exception | None: ...


class Loaded:
    """A loader for a backend that is up already."""

    def __init__(self, engine: Backend) -> None:
        self.engine: Backend | None = engine
        self.state = "READY"
        self.error: Exception | None = None
