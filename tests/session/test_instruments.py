"""An instrument is one module and one line: without both, everything else of the session works."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import pytest

from srbwriter.engine.types import EngineClosed
from srbwriter.session import instruments
from srbwriter.session.instrument import Desk, Instrument
from srbwriter.session.rounds import Round
from tests.session.conftest import open_session

REGISTRY = Path(instruments.__file__)
LINE = re.compile(r"^from \. import (\w+) as \1\n", re.MULTILINE)
LEAVES = LINE.findall(REGISTRY.read_text())


def test_every_line_of_the_registry_is_an_instrument_with_a_name_of_its_own() -> None:
    modules = [kind.__module__.rpartition(".")[2] for kind in instruments.INSTRUMENTS]
    assert modules == LEAVES != []
    names = [kind.name for kind in instruments.INSTRUMENTS]
    assert len(set(names)) == len(names)


class Listener(Instrument):
    """Hears what an instrument hears."""

    name = "listener"

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk)
        self.heard: list[str] = []

    def round_begins(self, current: Round) -> None:
        self.heard.append("round begins")

    def text_changed(self) -> None:
        self.heard.append("text changed")

    def round_ends(self) -> None:
        self.heard.append("round ends")

    def close(self) -> None:
        self.heard.append("close")


def test_an_instrument_hears_of_a_session_from_its_start_to_its_close(file: Path) -> None:
    with open_session(file) as session:
        listener = session.instruments[Listener] = Listener(session)
        assert Listener.of(session) is listener is session.listener
        session.set_text("It rained.")
        assert listener.heard == ["text changed"]
        listener.heard.clear()
        session.generate()
        assert listener.heard == ["round ends", "round begins"]
        listener.heard.clear()
        session.together(session.story.end_typing)
        assert listener.heard == ["text changed"]
    assert "close" in listener.heard


@pytest.mark.parametrize("kind", instruments.INSTRUMENTS, ids=lambda kind: kind.__name__)
def test_a_closed_session_leaves_no_thread_behind(file: Path, kind: type[Instrument]) -> None:
    """While such a thread waits for work it holds the session, and with it the story that was left."""
    with open_session(file) as session:
        instrument = kind.of(session)
        worker = instrument.later(threading.current_thread).result(60)
    worker.join(60)
    assert not worker.is_alive()
    with pytest.raises(EngineClosed, match="the session was closed"):
        instrument.later(threading.current_thread).result(0)
