"""What every handler works with: the engine behind its loader, the register of requests, the limits."""

from __future__ import annotations

import time
from collections.abc import Sequence

from srbwriter import __version__
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Request

from .backend import Backend, Loader
from .errors import ApiError, Dialect, from_engine, unavailable
from .follow import Bridge
from .registry import Record, Registry
from .settings import ServerSettings


class Services:
    """One per server. Used from the server's loop only."""

    def __init__(self, loader: Loader, settings: ServerSettings, bridge: Bridge) -> None:
        self.loader = loader
        self.settings = settings
        self.bridge = bridge
        self.registry = Registry(settings.keep_requests, settings.keep_seconds)
        self.started = time.time()
        self.deferred = 0

    @property
    def engine(self) -> Backend:
        """Raises ApiError (503) while the model is being loaded, or when it could not be."""
        engine = self.loader.engine
        if engine is not None:
            return engine
        if self.loader.error is not None:
            raise unavailable(f"the model could not be loaded: {self.loader.error}", 60)
        raise unavailable("Loading model", 1)

    @property
    def max_n(self) -> int:
        engine = self.loader.engine
        return self.settings.max_n if engine is None else min(self.settings.max_n, engine.max_branches)

    @property
    def model_name(self) -> str:
        if self.settings.alias:
            return self.settings.alias
        engine = self.loader.engine
        return engine.info.name if engine is not None else "model"

    @property
    def fingerprint(self) -> str:
        """What answers name as their system: the program and its version."""
        return f"srbwriter-{__version__}"

    @property
    def state(self) -> str:
        """The loader's state, or RUNNING while requests are answered."""
        state = str(self.loader.state)
        return "RUNNING" if state == "READY" and self.registry.live() else state

    def submit(
        self, requests: Sequence[Request], dialect: Dialect, id: str | None = None, slot: int = -1
    ) -> Record:
        """Hand requests to the engine as one record. All are submitted or none is.

        Raises ApiError: 400 for what the engine refuses, 429 or 503 with Retry-After when too much runs.
        """
        engine = self.engine
        self._admit(len(requests), dialect)
        generations: list[Generation] = []
        try:
            for request in requests:
                generations.append(engine.submit(request))
        except Exception as error:
            for generation in generations:
                generation.cancel()
            raise from_engine(error) from error
        record = self.registry.add(dialect, generations, id)
        record.slot = slot
        return record

    def _admit(self, more: int, dialect: Dialect) -> None:
        running = sum(len(record.generations) for record in self.registry.live())
        if running + more <= self.settings.max_requests:
            return
        self.deferred += 1
        status = 429 if dialect == "openai" else 503
        raise ApiError(
            status, f"{running} requests are being answered, the limit is {self.settings.max_requests}",
            headers={"Retry-After": "1"},
        )
