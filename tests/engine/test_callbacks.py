"""Code of the caller that runs on the engine's thread may raise anything, ``SystemExit`` included."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from contextlib import closing
from typing import Any

import pytest

from srbwriter.engine.embedding import Embedding
from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.remote.engine import RemoteEngine
from srbwriter.engine.remote.options import RemoteOptions
from srbwriter.engine.types import (
    BranchView,
    EngineClosed,
    EngineError,
    InvalidRequest,
    Request,
    Stop,
)
from tests.fakes.short_model import short_model
from tests.sizes import some_of

from .scripted import PROMPT as SCRIPTED_PROMPT
from .scripted import Scripted
from .support import PROMPT, SHORT, SMALL, WAIT, assert_same_logits, drive, fixture_of, small_engine, works

ENDINGS = [SystemExit(3), KeyboardInterrupt("mine"), asyncio.CancelledError("mine"), GeneratorExit("mine")]
LONG = Stop(max_tokens=40, ignore_eog=True)

each_ending = pytest.mark.parametrize(
    "ending", some_of(ENDINGS, ENDINGS[:2]), ids=lambda ending: type(ending).__name__
)


def raising(error: BaseException) -> Any:
    """A function that raises ``error``, whatever it is given."""

    def function(*_: Any, **__: Any) -> Any:
        raise error

    return function


engine = fixture_of(small_engine, "function")


# ---- an engine with a thread


@each_ending
def test_a_callback_that_would_end_the_thread_ends_its_request_only(
    threaded: Engine, ending: BaseException
) -> None:
    def fail(logits: Any, view: BranchView) -> None:
        if len(view.ids) == 2:
            raise ending

    other = threaded.submit(Request("The king", n=2, stop=LONG))
    failing = threaded.submit(Request(PROMPT, n=3, stop=SHORT, logits_callback=fail))
    with pytest.raises(InvalidRequest, match=type(ending).__name__) as caught:
        failing.wait(WAIT)
    assert caught.value.field == "logits_callback"
    assert [len(branch.ids) for branch in other.wait(WAIT).branches] == [40, 40]
    assert threaded.alive
    assert works(threaded)


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


def test_a_listener_that_fails_at_the_very_end_costs_no_text(threaded: Engine) -> None:
    generation = threaded.submit(Request(PROMPT, n=2, stop=SHORT))

    def fail_once_done() -> None:
        if generation.done:
            raise SystemExit

    generation.add_listener(fail_once_done)
    assert [len(branch.ids) for branch in generation.wait(WAIT).branches] == [4, 4]
    threaded.flush()
    assert generation.error is None
    assert works(threaded)


def test_a_listener_that_fails_when_the_engine_is_closed_does_not_stop_that(threaded: Engine) -> None:
    generation = threaded.submit(Request(PROMPT, stop=Stop(max_tokens=None, ignore_eog=True)))

    def fail_once_closed() -> None:
        if isinstance(generation.error, EngineClosed):
            raise SystemExit

    generation.add_listener(fail_once_closed)
    threaded.close()
    with pytest.raises(EngineClosed):
        generation.wait(0)


@pytest.mark.parametrize("ending", [*ENDINGS[:2], CancelledError("mine")], ids=lambda e: type(e).__name__)
def test_who_asks_for_a_call_gets_what_it_raised(threaded: Engine, ending: BaseException) -> None:
    with pytest.raises(type(ending)) as caught:
        threaded.call(raising(ending), timeout=WAIT)
    assert caught.value is ending
    assert threaded.alive
    assert works(threaded)


def test_an_engine_whose_thread_ends_all_the_same_says_so(
    threaded: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = threaded.submit(Request(PROMPT, stop=Stop(max_tokens=None, ignore_eog=True)))
    monkeypatch.setattr(threaded._scheduler.queue, "seconds_to_prefetch", raising(SystemExit("gone")))
    generation.cancel()
    assert threaded._thread is not None
    threaded._thread.join(WAIT)
    assert not threaded.alive
    with pytest.raises(EngineClosed, match="SystemExit: gone"):
        threaded.submit(Request(PROMPT))
    with pytest.raises(EngineClosed, match="SystemExit: gone"):
        threaded.flush()


@each_ending
def test_a_callback_of_a_future_does_not_end_the_thread_that_embeds(
    threaded: Engine, ending: BaseException
) -> None:
    gate = threading.Event()
    threaded.embed(["The fox"])  # loads what it takes
    futures: list[Future[list[Embedding]]] = []
    for _ in range(2):
        futures.append(threaded.embedder.embed(["The fox ran home."], None, 2))
        futures[-1].add_done_callback(lambda _: gate.wait(WAIT))
        futures[-1].add_done_callback(raising(ending))
    gate.set()
    for future in futures:
        assert future.result(WAIT)[0].tokens > 0
    assert threaded.embed(["The fox"])[0].tokens > 0


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
        patch.setattr(engine._scheduler.decoder, "record", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            engine.process()
    with pytest.raises(EngineError, match="KeyboardInterrupt"):
        generation.wait(0)
    assert engine.alive
    assert works(engine)


def test_sequences_are_in_order_after_an_interruption(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, ids = engine.sequences, engine.tokenize(PROMPT, add_bos=True)
    seq = low.new_seq()
    with monkeypatch.context() as patch:
        patch.setattr(engine._scheduler.decoder, "record", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            low.eval(seq, ids)
    found = low.eval(seq, ids[len(low.tokens(seq)) :])
    fresh = low.eval(low.new_seq(), ids)
    assert low.tokens(seq) == tuple(ids)
    assert_same_logits(found, fresh)
    assert works(engine)


# ---- loading


@each_ending
def test_who_loads_gets_what_on_progress_raised(ending: BaseException) -> None:
    with pytest.raises(type(ending)) as caught:
        Engine.load(short_model(), SMALL, on_progress=raising(ending))
    assert caught.value is ending


@each_ending
def test_who_waits_for_a_load_hears_that_it_was_ended(ending: BaseException) -> None:
    loader = EngineLoader(short_model(), SMALL, load=raising(ending))
    with pytest.raises(EngineError, match=type(ending).__name__):
        loader.wait(WAIT)
    assert loader.state == "FAILED"


# ---- an engine elsewhere


@each_ending
def test_a_listener_cannot_end_the_thread_of_a_connection(ending: BaseException) -> None:
    with closing(Scripted("vllm")) as server, RemoteEngine.connect(RemoteOptions(server.url)) as engine:
        server.hold.clear()  # it has not ended when the listener comes
        failing = engine.submit(Request(SCRIPTED_PROMPT, n=2, stop=Stop(max_tokens=None)))
        failing.add_listener(raising(ending))
        server.hold.set()
        with pytest.raises(EngineError, match=f"listener.*{type(ending).__name__}"):
            failing.wait(WAIT)
        other = engine.submit(Request(SCRIPTED_PROMPT, stop=SHORT))
        assert other.wait(WAIT).branches[0].text
