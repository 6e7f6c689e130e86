"""A session on a story of its own, with the real engine."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, Stop
from srbwriter.session import Round, Session
from srbwriter.story import Story
from tests.fakes.shared_model import load_engine
from tests.fakes.short_model import short_model

WAIT = 240.0
OPTIONS = EngineOptions(n_ctx=2048, gpu_layers=0, seed=5, flash_attn="on")


def ready(session: Session) -> None:
    """Wait until the session has its model, of which it hears on a thread of its own."""
    session.loader.wait(WAIT)
    for thread in threading.enumerate():
        if thread.name == "srbwriter-ready":
            thread.join(WAIT)


def written(session: Session) -> list[str]:
    """The texts of the round, once it has ended and is written down."""
    current = session.round
    current.generation.wait(WAIT)
    session.keep()
    return [branch.text for branch in current.branches]


def write_round(session: Session) -> Round:
    """A new round, written to its end and written down."""
    current = session.generate()
    written(session)
    return current


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "story.srbw"


@contextmanager
def open_session(file: Path, text: str = "", model: Path | None = None, **more: Any) -> Generator[Session]:
    """A session on a new story of ``text``; where words matter, with the bundled model."""
    story = Story.create(file)
    if text:
        story.append(text)
    asked = {"n": 4, "stop": Stop(max_tokens=24, ignore_eog=True), **more}
    opened = Session(
        story, EngineLoader(model or short_model(), OPTIONS, load_engine), options=OPTIONS, **asked
    )
    ready(opened)
    yield opened
    opened.close()


@pytest.fixture
def session(file: Path) -> Iterator[Session]:
    with open_session(file) as opened:
        yield opened
