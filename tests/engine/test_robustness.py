"""No input and no code of the caller brings the engine down, or costs another request anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    BranchView,
    EngineError,
    Failed,
    InvalidRequest,
    Request,
    Stop,
)

from .support import GREEDY, PROMPT, SHORT, WAIT, drive, finish, fixture_of, small_engine, works

engine = fixture_of(small_engine, "function")


def test_a_callback_that_raises_ends_its_request_only(engine: Engine) -> None:
    def fail(logits: Any, view: BranchView) -> None:
        if len(view.ids) == 2:
            raise ZeroDivisionError("mine")

    other = engine.submit(Request("The king", n=2, stop=Stop(max_tokens=12, ignore_eog=True)))
    failing = engine.submit(Request(PROMPT, n=3, stop=SHORT, logits_callback=fail))
    drive(engine, lambda: failing.done)
    with pytest.raises(InvalidRequest, match="ZeroDivisionError: mine") as caught:
        failing.wait(0)
    assert caught.value.field == "logits_callback"
    assert sum(isinstance(e, Failed) for e in failing.log) == 1
    finish(engine, other)
    assert [len(b.ids) for b in other.branches] == [12, 12]
    failing.branches[0].reroll()  # what has failed stays so
    failing.add_branch()
    engine.process()
    assert failing.done
    assert works(engine)


def test_a_callback_changes_only_its_own_copy(engine: Engine) -> None:
    def compel(logits: Any, view: BranchView) -> None:
        logits[:] = -np.inf
        logits[300 + view.index] = 0.0

    compelled = engine.submit(Request(PROMPT, n=2, stop=SHORT, logits_callback=compel, sampling=GREEDY))
    free = engine.submit(Request(PROMPT, stop=SHORT, sampling=GREEDY))
    finish(engine, compelled, free)
    assert [b.ids for b in compelled.branches] == [(300,) * 4, (301,) * 4]
    engine.reset()
    alone = engine.submit(Request(PROMPT, stop=SHORT, sampling=GREEDY))
    finish(engine, alone)
    assert free.branches[0].ids == alone.branches[0].ids


def test_listeners_hear_once_a_step_and_may_raise(engine: Engine) -> None:
    heard: list[int] = []
    loop = asyncio.new_event_loop()
    loop.close()
    generation = engine.submit(Request(PROMPT, n=4, stop=Stop(max_tokens=6, ignore_eog=True)))
    generation.add_listener(lambda: loop.call_soon_threadsafe(print))  # raises: the loop is closed
    remove = generation.add_listener(lambda: heard.append(len(generation.log)))
    steps = drive(engine, lambda: generation.done)
    assert 0 < len(heard) <= steps + 4  # the first tokens of each are told before the step's decode
    assert heard == sorted(set(heard))
    remove()
    remove()
    generation.branches[0].reroll()
    finish(engine, generation)
    assert heard[-1] < len(generation.log)
    assert works(engine)


@pytest.mark.parametrize(
    "use",
    [Engine.detokenize, Engine.pieces, Engine.resident,
     lambda engine, ids: engine.save_session("a", ids), lambda engine, ids: engine.embed([ids])],
)  # fmt: skip
def test_ids_that_are_none_are_refused_in_words(engine: Engine, use: Callable[[Engine, Any], Any]) -> None:
    for ids in ([1.5], ["x"], [None], 5, None, {1}, {"a": 1}, [-1], [10**30]):
        with pytest.raises(InvalidRequest):
            use(engine, ids)
            pytest.fail(f"{ids} was not refused")


# ---- code of the caller may raise anything, ``SystemExit`` included


def raising(error: BaseException) -> Any:
    """A function that raises ``error``, whatever it is given."""

    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


# ---- an engine with a thread


def test_a_listener_may_raise_what_would_end_the_thread(threaded: Engine) -> None:
    failing = threaded.submit(Request(PROMPT, n=2, stop=Stop(max_tokens=None, ignore_eog=True)))
    failing.add_listener(raising(SystemExit(3)))
    with pytest.raises(EngineError, match="SystemExit"):
        failing.wait(WAIT)
    assert threaded.alive
    assert works(threaded)
