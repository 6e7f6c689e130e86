"""Loading in the background, with a load whose every step the test decides."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import Cancelled, EngineOptions

LONG = 10.0  # seconds; only a failing test waits that long


class FakeEngine:
    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class FakeLoad:
    """Reports ``fractions``, each when the test allows it, then answers with an engine or an error."""

    def __init__(self, *fractions: float, error: Exception | None = None, deaf: bool = False) -> None:
        self.engine = FakeEngine()
        self.calls: list[Any] = []
        self._fractions, self._error, self._deaf = fractions, error, deaf
        self._go = threading.Semaphore(0)
        self._told = threading.Semaphore(0)

    def __call__(self, path: Any, options: Any, /, *, on_progress: Any) -> Any:
        self.calls.append((path, options))
        for fraction in self._fractions:
            assert self._go.acquire(timeout=LONG)
            wanted = on_progress(fraction)
            self._told.release()
            if not wanted and not self._deaf:
                raise Cancelled("stopped")
        assert self._go.acquire(timeout=LONG)
        if self._error is not None:
            raise self._error
        return self.engine

    def step(self) -> None:
        """Let it report once."""
        self._go.release()
        assert self._told.acquire(timeout=LONG)

    def end(self) -> None:
        self._go.release()


def test_from_init_to_ready() -> None:
    load, options = FakeLoad(0.25, 0.5, 0.4), EngineOptions(n_ctx=64)
    loader = EngineLoader("m.gguf", options, load)
    assert (loader.state, loader.progress, loader.engine, loader.error) == ("INIT", 0.0, None, None)
    assert loader.start() is loader
    loader.start()
    for expected in (0.25, 0.5, 0.5):
        load.step()
        assert (loader.state, loader.progress, loader.engine) == ("LOADING", expected, None)
    load.end()
    assert loader.wait(LONG) is load.engine is loader.engine
    assert (loader.state, loader.progress, loader.error) == ("READY", 1.0, None)
    assert load.calls == [("m.gguf", options)]


def test_cancelled_at_the_next_report() -> None:
    load = FakeLoad(0.5, 0.9)
    loader = EngineLoader("m.gguf", load=load).start()
    load.step()
    loader.cancel()
    load.step()
    with pytest.raises(Cancelled):
        loader.wait(LONG)
    assert (loader.state, loader.progress) == ("FAILED", 0.9)
