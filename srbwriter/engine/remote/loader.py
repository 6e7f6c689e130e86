"""Connects in the background, as a local model is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..loader import EngineLoader, OnProgress
from .options import RemoteOptions, shown

if TYPE_CHECKING:
    from ..backend import Backend
    from ..types import EngineOptions


class RemoteLoader(EngineLoader):
    """Connects on a daemon thread."""

    def __init__(self, options: RemoteOptions) -> None:
        self._remote = options
        super().__init__(shown(options.url), None, _connecting(options))

    @property
    def name(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The name of the model, or else its address."""
        engine = self.engine
        return engine.info.name if engine is not None else self._remote.model or self.place

    def again(self) -> RemoteLoader:
        return RemoteLoader(replace(self._remote))


def _connecting(options: RemoteOptions) -> Callable[..., Backend]:
    def connect(
        path: str | os.PathLike[str], engine_options: EngineOptions | None, /, *, on_progress: OnProgress
    ) -> Backend:
        from .engine import RemoteEngine  # brings httpx along

        return RemoteEngine.connect(options, on_progress)

    return connect
