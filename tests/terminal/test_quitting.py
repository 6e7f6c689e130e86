"""The end of the program: the terminal is given back, and what takes long after that is named."""

from __future__ import annotations

from pathlib import Path

from tests.terminal.support import OPENING, make_story, text_of
from tests.terminal.terminal import CTRL_Q, LEFT_ALTERNATE_SCREEN, Terminal

# Python runs a module of this name before the program. The model is closed when the file is there.
_SLOW_MODEL = """
import pathlib, sys, threading
if "srbwriter" in sys.orig_argv:
    from srbwriter.engine.loader import EngineLoader
    close = EngineLoader.close
    def close_late(self, *given):
        while not pathlib.Path({gate!r}).exists():
            threading.Event().wait(0.02)
        close(self, *given)
    EngineLoader.close = close_late
"""


def test_a_model_that_closes_slowly_is_named_and_the_words_are_on_the_disk_before(
    terminal: Terminal, tmp_path: Path
) -> None:
    gate, modules = tmp_path / "gate", tmp_path / "modules"
    modules.mkdir()
    (modules / "sitecustomize.py").write_text(_SLOW_MODEL.format(gate=str(gate)))
    file = make_story(terminal.folder)
    path = f"{modules}:{terminal.environment['PYTHONPATH']}"
    terminal.start(file, env={"PYTHONPATH": path})
    terminal.wait_for(OPENING.strip())
    terminal.type("The end.")
    terminal.press(CTRL_Q)
    terminal.wait_for("Your story is saved. The model is still being closed")
    assert LEFT_ALTERNATE_SCREEN in terminal.log
    assert text_of(file) == OPENING + "The end."
    gate.touch()
    assert terminal.ended() == 0
    assert "still being closed" not in terminal.screen, "the shell's prompt gets a line of its own"
