"""Fixtures that several modules of the engine's tests share.

There is no ``engine`` here: the run's shared one is in the folder above, and a module that needs
another says in a fixture of its own which.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.engine.engine import Engine

from .support import finish, small_engine, started


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
