"""Fixtures that several modules of the engine's tests share.

A module that needs an engine other than the shared one says in a fixture of its own which.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions
from tests.fakes.shared_model import load_engine

from .support import finish, short_model, small_engine, started


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine in its thread, shared by all modules that need no other."""
    with load_engine(short_model(), EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)) as loaded:
        yield loaded


@pytest.fixture
def threaded() -> Iterator[Engine]:
    """A small engine of the test's own that runs in its thread."""
    with small_engine(thread=True) as loaded:
        yield loaded


@pytest.fixture(scope="module")
def undisturbed(engine: Engine) -> list[tuple[int, ...]]:
    """What the branches of ``started`` write in the module's engine when nobody steers them."""
    generation = started(engine, 0)
    finish(engine, generation)
    return [b.ids for b in generation.branches]
