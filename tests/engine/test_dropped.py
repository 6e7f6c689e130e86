"""An engine is closed once nobody holds it any more, nor one of its requests."""

from __future__ import annotations

import gc
import threading

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.native.library import library
from srbwriter.engine.types import Request

from .support import PROMPT, SHORT, SMALL, WAIT, finish, short_model

ENGINES = 3


@pytest.fixture
def freed(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Released for each model that is freed."""
    count, lib = threading.Semaphore(0), library()
    native = lib.llama_model_free

    def free(pointer: int) -> None:
        native(pointer)
        count.release()

    monkeypatch.setattr(lib, "llama_model_free", free)
    return count


@pytest.mark.parametrize("thread", [True, False])
def test_engines_that_are_dropped_leave_nothing_behind(thread: bool, freed: threading.Semaphore) -> None:
    threads = set(threading.enumerate())
    for _ in range(ENGINES):
        engine = Engine.load(short_model(), SMALL, thread=thread)
        generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
        if thread:
            generation.wait(WAIT)
        else:
            finish(engine, generation)
        engine.embed(["The fox"])
        runner = engine._thread
        del engine, generation
        gc.collect()
        assert freed.acquire(timeout=WAIT)
        if runner is not None:
            runner.join(WAIT)
    assert {t for t in threading.enumerate() if t not in threads and t.name.startswith("srb")} == set()
