"""The weights and the header of a file, read once in a process for all engines that read them alike."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine import engine as engines
from srbwriter.engine import sizing
from srbwriter.engine.engine import Engine
from srbwriter.engine.model import Model
from srbwriter.engine.types import EngineOptions


class SharedModel(Model):
    """A model that stays loaded for the next engine."""

    def close(self) -> None:
        """No-op: the process that ends frees it."""


_patched = threading.Lock()  # sessions load on threads of their own

# What the weights depend on; all else is the context's, which each engine has for itself.
_FIELDS = ("gpu_layers", "main_gpu", "mmap", "mlock", "tensor_split")


@cache
def _load(path: Path, *fields: Any) -> SharedModel:
    return SharedModel(path, EngineOptions(**dict(zip(_FIELDS, fields, strict=True))))


def _shared(path: Path, options: EngineOptions, _: object) -> SharedModel:
    return _load(path, *(getattr(options, field) for field in _FIELDS))


# For each engine, Python walks through a header with thousands of words.
_read_contents = cache(sizing.read_contents)


def load_engine(path: Any, options: EngineOptions | None = None, /, **more: Any) -> Engine:
    """Return ``Engine.load(path, options, **more)`` over weights that an engine before it may have loaded.

    For a file that stays there and is the same: its weights stay in memory.
    """
    with _patched, pytest.MonkeyPatch.context() as patch:
        patch.setattr(engines, "Model", _shared)
        patch.setattr(sizing, "read_contents", _read_contents)
        return Engine.load(path, options, **more)
