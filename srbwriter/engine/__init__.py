"""The batched engine as a library: evaluate a prompt once, run N branches of it as independent processes.

Public names are loaded when first used, so that importing this package costs nothing.
Knows tokens and text; knows no story, no screen and no HTTP.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine import Engine
    from .generation import Branch, Cursor, Delta, Generation
    from .loader import EngineLoader
    from .remote.engine import RemoteEngine
    from .remote.options import RemoteOptions
    from .sequences import Sequences
    from .types import (
        BranchState,
        ContextOverflow,
        EngineClosed,
        EngineError,
        EngineOptions,
        EngineStats,
        FinishReason,
        InvalidRequest,
        LibraryError,
        LimitExceeded,
        ModelError,
        ModelInfo,
        NoRoom,
        NotSupported,
        OutOfRange,
        Priority,
        Request,
        Sampling,
        Stop,
        TokenRun,
    )

_HOMES = {
    "Engine": "engine", "EngineLoader": "loader", "Sequences": "sequences",
    "RemoteEngine": "remote.engine", "RemoteOptions": "remote.options",
    **dict.fromkeys(("Branch", "Cursor", "Delta", "Generation"), "generation"),
}  # fmt: skip
"""Modules of the public names; the others are in ``types``."""

__all__ = [
    "Branch", "BranchState", "ContextOverflow", "Cursor", "Delta", "Engine", "EngineClosed", "EngineError",
    "EngineLoader", "EngineOptions", "EngineStats", "FinishReason", "Generation", "InvalidRequest",
    "LibraryError", "LimitExceeded", "ModelError", "ModelInfo", "NoRoom", "NotSupported", "OutOfRange",
    "Priority", "RemoteEngine", "RemoteOptions", "Request", "Sampling", "Sequences", "Stop", "TokenRun",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES.get(name, 'types')}"), name)
