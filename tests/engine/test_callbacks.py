"""Code of the caller that runs on the engine's thread may raise anything, ``SystemExit`` included."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    EngineError,
    Request,
    Stop,
)

from .support import PROMPT, SHORT, WAIT, drive, fixture_of, small_engine, works

ENDINGS = [SystemExit(3), KeyboardInterrupt("mine"), asyncio.CancelledError("mine"), GeneratorExit("mine")]
LONG = Stop(max_tokens=40, ignore_eog=True)

each_ending = pytest.mark.parametrize("ending", ENDINGS[:2], ids=lambda ending: type(ending).__name__)


def raising(error: BaseException) -> Any:
    """A function that raises ``error``, whatever it is given."""

    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


engine = fixture_of(small_engine, "function")


# ---- an engine with a thread


@each_ending
def test_a_listener_that_would_end_the_thread_ends_its_request_only(
    threaded: Engine, ending: BaseException
) -> None:
    other = threaded.submit(Request("The king", n=2, stop=LONG))
    failing = threaded.submit(Request(PROMPT, n=2, stop=Stop(max_tokens=None, ignore_eog=True)))
    heard = threading.Event()
    failing.add_listener(raising(ending))
    failing.add_listener(heard.set)
    with pytest.raises(EngineError, match=f"listener.*{type(ending).__name__}"):
        failing.wait(WAIT)
    assert heard.is_set()
    assert [len(branch.ids) for branch in other.wait(WAIT).branches] == [40, 40]
    assert threaded.alive
    assert works(threaded)


# ---- an engine that its caller steps


@pytest.mark.parametrize("where", ["logits_callback", "listener"])
@each_ending
def test_who_steps_the_engine_gets_what_its_own_code_raised(
    engine: Engine, ending: BaseException, where: str
) -> None:
    other = engine.submit(Request("The king", stop=SHORT))
    callback = raising(ending) if where == "logits_callback" else None
    failing = engine.submit(Request(PROMPT, n=2, stop=LONG, logits_callback=callback))
    if where == "listener":
        failing.add_listener(raising(ending))
    with pytest.raises(type(ending)):
        drive(engine, lambda: failing.done)
    drive(engine, lambda: other.done and failing.done)
    with pytest.raises(EngineError, match=where):
        failing.wait(0)
    assert len(other.wait(0).branches[0].ids) == 4
    assert works(engine)


def test_a_step_that_is_interrupted_leaves_a_clean_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C comes wherever the main thread is: after the decode, say, and before its rows are read."""
    generation = engine.submit(Request(PROMPT, n=2, stop=LONG))
    engine.process()
    with monkeypatch.context() as patch:
        patch.setattr(engine._scheduler, "_record", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            engine.process()
    with pytest.raises(EngineError, match="KeyboardInterrupt"):
        generation.wait(0)
    assert engine.alive
    assert works(engine)


# ---- loading


# ---- an engine elsewhere
