"""A file whose load ended the process is not loaded again before somebody says so."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.load_mark import marked, marks_dir
from srbwriter.engine.types import EngineOptions, ModelError

from .support import SMALL

DIES = """
import os, sys
from srbwriter.engine.native import weights
weights.library().llama_model_load_from_file = lambda *_: os.abort()
from srbwriter.engine import Engine
Engine.load(sys.argv[1])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def leave_a_mark(file: Path) -> None:
    """As a process does that ends while it loads."""
    program = "import os, sys; from pathlib import Path; from srbwriter.engine.load_mark import marked\n"
    program += "with marked(Path(sys.argv[1]), True): os._exit(9)"
    assert subprocess.run([sys.executable, "-c", program, str(file)]).returncode == 9
    assert list(marks_dir().iterdir())


def test_a_load_that_kills_the_process_is_told_of_at_the_next(tmp_path: Path) -> None:
    """The whole way: a real load that aborts, the refusal, the flag, and a load that goes well."""
    model = tmp_path / "model.gguf"
    model.symlink_to(bundled_model())
    killed = subprocess.run([sys.executable, "-c", DIES, str(model)], capture_output=True)
    assert killed.returncode < 0
    with pytest.raises(ModelError, match="ended while it was loading this file.*--load-anyway"):
        Engine.load(model, SMALL)
    anyway = EngineOptions(n_ctx=512, gpu_layers=0, threads=1, load_anyway=True)
    Engine.load(model, anyway, thread=False).close()
    Engine.load(model, SMALL, thread=False).close()


def test_the_command_line_says_so_and_takes_the_flag(tmp_path: Path) -> None:
    leave_a_mark(bundled_model())
    command = [sys.executable, "-m", "srbwriter", "write", "Once", "-n", "1", "--max-tokens", "2", "-t", "1"]
    refused = subprocess.run(command, capture_output=True, text=True)
    assert refused.returncode == 3 and "--load-anyway" in refused.stderr
    taken = subprocess.run([*command, "--load-anyway"], capture_output=True, text=True)
    assert taken.returncode == 0, taken.stderr
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr


def test_no_mark_is_left_of_a_load_that_ended_in_words(file: Path) -> None:
    with pytest.raises(ModelError), marked(file):
        raise ModelError(str(file), "no good")
    assert not list(marks_dir().iterdir())
    with marked(file):
        assert list(marks_dir().iterdir())
    assert not list(marks_dir().iterdir())


def test_a_file_that_has_changed_is_another_file(file: Path) -> None:
    leave_a_mark(file)
    file.write_bytes(b"GGUF, whole now")
    with marked(file):
        pass
    assert not list(marks_dir().iterdir())


def test_other_files_are_loaded(file: Path) -> None:
    leave_a_mark(file)
    other = file.with_name("other.gguf")
    other.write_bytes(b"GGUF")
    with marked(other):
        pass
    with pytest.raises(ModelError), marked(file):
        pass


def test_a_load_that_is_under_way_is_in_nobodys_way(file: Path) -> None:
    """In this process, and in another one that runs."""
    inside = threading.Event()
    with marked(file):
        other = threading.Thread(target=lambda: _enter(file, inside))
        other.start()
        other.join()
    assert inside.is_set()
    (mark,) = _marks_of(file, os.getppid())
    with marked(file):
        pass
    assert mark.exists()


def _enter(file: Path, inside: threading.Event) -> None:
    with marked(file):
        inside.set()


def _marks_of(file: Path, pid: int) -> list[Path]:
    """The mark that a process with this number would have."""
    with marked(file):
        (mine,) = marks_dir().glob(f"*.{os.getpid()}.{threading.get_ident()}")
        text = mine.read_text()
    theirs = mine.with_name(mine.name.split(".")[0] + f".{pid}.1")
    theirs.write_text(text.replace(f'"pid": {os.getpid()}', f'"pid": {pid}'))
    return [theirs]


def test_a_mark_of_a_number_that_is_now_ours_is_left_by_another(file: Path) -> None:
    """Processes in containers have the same number each time."""
    _marks_of(file, os.getpid())
    with pytest.raises(ModelError), marked(file):
        pass


def test_a_mark_from_before_the_machine_was_started_says_nothing(file: Path) -> None:
    leave_a_mark(file)
    (mark,) = marks_dir().iterdir()
    mark.write_text(mark.read_text().replace('"boot": "', '"boot": "other'))
    with marked(file):
        pass


@given(st.text() | st.sampled_from(['{"pid": "x"}', "[]", "{}", '{"pid": 1e400}', "5"]))
def test_a_damaged_mark_says_nothing(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.mktemp("mark") / "model.gguf"
    file.write_bytes(b"GGUF")
    (mark,) = _marks_of(file, 1)
    mark.write_text(text, "utf-8", "replace")
    with marked(file):
        pass


def test_where_no_mark_can_be_kept_a_file_is_loaded_without(file: Path) -> None:
    marks_dir().parent.mkdir(parents=True)
    marks_dir().write_text("not a folder")
    with marked(file):
        pass
