"""An instrument is one module and one line: without both, everything else of the session works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import srbwriter
from srbwriter.engine.types import EngineClosed
from srbwriter.session import instruments
from srbwriter.session.instrument import Desk, Instrument
from srbwriter.session.rounds import Round
from tests.session.conftest import open_session
from tests.sizes import some_of

REGISTRY = Path(instruments.__file__)
LINE = re.compile(r"^from \. import (\w+) as \1\n", re.MULTILINE)
LEAVES = LINE.findall(REGISTRY.read_text())

_ROUND = """
import importlib, pkgutil, sys, tempfile
from pathlib import Path

import srbwriter.session
from srbwriter.demo import bundled_model
from srbwriter.engine.loader import EngineLoader
from srbwriter.engine.types import EngineOptions, Stop
from srbwriter.session import Session
from srbwriter.story import Story

for module in pkgutil.iter_modules(srbwriter.session.__path__):
    importlib.import_module(f"srbwriter.session.{module.name}")
assert str(Path(srbwriter.session.__file__).parent).startswith(sys.argv[1])
assert f"srbwriter.session.{sys.argv[2]}" not in sys.modules

with tempfile.TemporaryDirectory() as folder:
    story = Story.create(Path(folder) / "story.srbw")
    options = EngineOptions(n_ctx=512, gpu_layers=0)
    loader = EngineLoader(bundled_model(), options)
    session = Session(story, loader, n=2, options=options, stop=Stop(max_tokens=4, ignore_eog=True))
    loader.wait(120)
    session.set_text("It rained.")
    for _ in range(2):
        current = session.generate()
        while current.generation is None:  # the session hears of its model on a thread of its own
            session.keep()
        current.generation.wait(120)
        session.pick(1, go_on=True)
    session.undo()
    session.close()
"""


def test_every_line_of_the_registry_is_an_instrument_with_a_name_of_its_own() -> None:
    modules = [kind.__module__.rpartition(".")[2] for kind in instruments.INSTRUMENTS]
    assert modules == LEAVES != []
    names = [kind.name for kind in instruments.INSTRUMENTS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("leaf", LEAVES)
def test_an_instrument_knows_no_other(leaf: str) -> None:
    text = REGISTRY.with_name(f"{leaf}.py").read_text()
    others = {other for other in LEAVES if other != leaf}
    named = re.findall(r"from \.(\w+) import", text) + re.findall(r"srbwriter\.session\.(\w+)", text)
    assert not others & set(named)


@pytest.mark.slow
@pytest.mark.parametrize("leaf", some_of(LEAVES, LEAVES[::4]))
def test_a_round_is_written_without_an_instrument(leaf: str, tmp_path: Path) -> None:
    package = tmp_path / "srbwriter"
    shutil.copytree(
        Path(srbwriter.__file__).parent, package,
        copy_function=os.symlink, ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    (package / "session" / f"{leaf}.py").unlink()
    (package / "tui" / "actions" / f"{leaf}.py").unlink(missing_ok=True)
    registry = package / "session" / REGISTRY.name
    kept = "".join(
        line for line in REGISTRY.read_text().splitlines(True) if line != f"from . import {leaf} as {leaf}\n"
    )
    registry.unlink()
    registry.write_text(kept)
    done = subprocess.run(
        [sys.executable, "-P", "-c", _ROUND, str(tmp_path), leaf],
        env={**os.environ, "PYTHONPATH": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


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
        session.typing.text("It rained.")
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
