"""An engine that nobody holds any more is closed, once its requests are done."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.native.library import library
from srbwriter.engine.types import EngineClosed, Request

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


@contextmanager
def no_collector() -> Iterator[None]:
    """Nothing is freed meanwhile but what has no reference left."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("thread", [True, False])
def test_engines_that_are_dropped_leave_nothing_behind(thread: bool, freed: threading.Semaphore) -> None:
    threads = set(threading.enumerate())
    with no_collector():
        for _ in range(ENGINES):
            engine = Engine.load(short_model(), SMALL, thread=thread)
            generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
            if thread:
                generation.wait(WAIT)
            else:
                finish(engine, generation)
            engine.embed(["The fox"])
            runner = engine._thread
            del engine
            assert freed.acquire(timeout=WAIT)
            if runner is not None:
                runner.join(WAIT)
        assert not generation.branches[0].live
        assert {t for t in threading.enumerate() if t not in threads and t.name.startswith("srb")} == set()


def test_a_request_is_finished_first(freed: threading.Semaphore) -> None:
    generation = Engine.load(short_model(), SMALL).submit(Request(PROMPT, n=2, stop=SHORT))
    assert [len(branch.ids) for branch in generation.wait(WAIT).branches] == [4, 4]
    assert freed.acquire(timeout=WAIT)
    generation.branches[0].reroll()
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)
