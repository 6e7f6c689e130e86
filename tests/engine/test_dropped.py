"""An engine that nobody holds any more is closed, once its requests are done."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.native.library import library
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import EngineClosed, Request, Stop

from .scripted import PROMPT as TALE
from .scripted import Scripted
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


def test_a_request_that_rests_is_told(freed: threading.Semaphore) -> None:
    engine = Engine.load(short_model(), SMALL)
    generation = engine.submit(Request(PROMPT, stop=Stop(max_tokens=None, ignore_eog=True)))
    generation.branches[0].pause()
    engine.flush()
    del engine
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)
    assert freed.acquire(timeout=WAIT)


@pytest.fixture
def server() -> Iterator[Scripted]:
    with closing(Scripted("vllm")) as it:
        yield it


def connect(server: Scripted) -> tuple[RemoteEngine, threading.Thread]:
    """A connection, and its thread."""
    before = set(threading.enumerate())
    engine = RemoteEngine.connect(RemoteOptions(server.url))
    [thread] = [t for t in threading.enumerate() if t not in before and t.name == "srbwriter-remote"]
    return engine, thread


def ended(thread: threading.Thread, server: Scripted) -> bool:
    """Whether the thread ends, and every connection to the server."""
    thread.join(WAIT)
    over = all(server.over.acquire(timeout=WAIT) for _ in range(server.begun))
    return over and not thread.is_alive()


def test_an_engine_elsewhere_that_is_dropped_leaves_nothing_behind(server: Scripted) -> None:
    with no_collector():
        engine, thread = connect(server)
        generation = engine.submit(Request(TALE, n=2, stop=SHORT)).wait(WAIT)
        generation.branches[0].append(" and")
        generation.wait(WAIT)
        held = weakref.ref(engine)
        del engine
        assert held() is None
        assert ended(thread, server)
    generation.branches[0].reroll()
    with pytest.raises(EngineClosed):
        generation.wait(WAIT)
