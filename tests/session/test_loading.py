"""The load of a session's model: given up, taken up again, and handed on to the next story."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.loader import EngineLoader, OnProgress
from srbwriter.engine.types import Cancelled, EngineOptions, Stop
from srbwriter.session import Session
from srbwriter.story import Story
from tests.fakes.short_model import short_model

from .conftest import ready

WAIT = 60.0
OPTIONS = EngineOptions(n_ctx=2048, gpu_layers=0, seed=5)


class SlowLoad:
    """A load that is stuck until it is let go; then it asks whether it is still wanted."""

    def __init__(self) -> None:
        self.begun, self.gate = threading.Event(), threading.Event()

    def __call__(self, path: object, options: EngineOptions | None, /, *, on_progress: OnProgress) -> Engine:
        self.begun.set()
        self.gate.wait(WAIT)
        if not on_progress(0.5):
            raise Cancelled("given up")
        return Engine.load(short_model(), options, on_progress=on_progress)


@pytest.fixture
def load() -> Iterator[SlowLoad]:
    made = SlowLoad()
    yield made
    made.gate.set()


def test_a_load_is_given_up_at_once_though_the_library_is_busy(tmp_path: Path, load: SlowLoad) -> None:
    loader = EngineLoader(short_model(), OPTIONS, load)
    session = Session(Story.create(tmp_path / "a.srbw"), loader, n=2, options=OPTIONS)
    try:
        load.begun.wait(WAIT)
        session.generate()
        assert session.cancel_load()
        assert session.engine_state == "FAILED" and isinstance(session.engine_error, Cancelled)
        assert session.round is None
        assert not load.gate.is_set() and not session.cancel_load()
        load.gate.set()
        with pytest.raises(Cancelled):
            loader.wait(WAIT)
        session.load_again()
        assert session.engine_error is None
        session.loader.wait(WAIT)
        assert session.engine_state == "READY"
    finally:
        load.gate.set()
        session.close()


def test_a_model_that_is_loaded_stays(tmp_path: Path) -> None:
    session = Session(Story.create(tmp_path / "a.srbw"), EngineLoader(short_model(), OPTIONS))
    try:
        engine = session.loader.wait(WAIT)
        assert not session.cancel_load()
        assert session.engine is engine and engine.alive and session.engine_error is None
    finally:
        session.close()


def test_the_next_story_takes_the_model_over(tmp_path: Path) -> None:
    first, second = tmp_path / "a.srbw", tmp_path / "b.srbw"
    loader = EngineLoader(short_model(), OPTIONS)
    session = Session(Story.create(first), loader, n=2, stop=Stop(max_tokens=400, ignore_eog=True))
    try:
        engine = loader.wait(WAIT)
        session.set_text("Once upon a time")
        current = session.generate()
        session.close(keep_model=True)
        assert engine.alive and loader.state == "READY"
        with Story.open(first, readonly=True) as story:
            kept = {story.node(node).text for node in story.reading_order()}
        assert {branch.text for branch in current.branches} <= kept
        session = Session(Story.create(second), loader, n=2, stop=Stop(max_tokens=5, ignore_eog=True))
        session.set_text("It rained")
        texts = _round_texts(session)
        assert session.engine is engine and all(texts)
    finally:
        session.close()
    assert not engine.alive


def test_a_load_under_way_is_taken_over_too(tmp_path: Path, load: SlowLoad) -> None:
    loader = EngineLoader(short_model(), OPTIONS, load)
    session = Session(Story.create(tmp_path / "a.srbw"), loader)
    try:
        load.begun.wait(WAIT)
        session.close(keep_model=True)
        few = Stop(max_tokens=5, ignore_eog=True)
        session = Session(Story.create(tmp_path / "b.srbw"), loader, n=2, stop=few)
        session.set_text("It rained")
        session.generate()
        load.gate.set()
        assert all(_round_texts(session))
    finally:
        load.gate.set()
        session.close()


def _round_texts(session: Session) -> list[str]:
    """What the branches of the round wrote, asked for now if nobody has."""
    ready(session)
    current = session.round or session.generate()
    return current.generation.result(WAIT)
