"""What each room may load, asked of fresh interpreters: start-up stays fast and rooms stay apart."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import srbwriter

HEAVY = {"textual", "rich", "llama_cpp", "numpy", "fastapi", "starlette", "uvicorn"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules in a fresh interpreter after ``code``, which may end in SystemExit."""
    probe = f"""
import contextlib, io, json, sys
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    exec({code!r})
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_nothing_heavy_is_loaded_before_it_is_needed() -> None:
    """By rooms that every command needs, and by a command line that is answered without more."""
    rooms = "srbwriter, srbwriter.engine.types, srbwriter.engine.parameters, srbwriter.config"
    assert not loaded_by(f"import {rooms}, srbwriter.launch, srbwriter.logs, srbwriter.demo") & HEAVY
    lines = (["--help"], ["--version"], ["write", "--help"], ["--no-such-flag"])
    each = "    with contextlib.suppress(SystemExit): main(line)"
    assert not loaded_by(f"from srbwriter.cli import main\nfor line in {lines}:\n{each}") & HEAVY


def test_a_server_loads_no_llama_cpp_before_an_engine() -> None:
    """A port answers at once, and one for an engine elsewhere never takes the second and the memory."""
    serve = "from srbwriter.cli import main\nmain(['--serve', '--port', '0'])"
    idle = "import srbwriter.server\nfrom srbwriter.engine import EngineLoader\n"
    idle += "srbwriter.server.run = lambda *_, **__: 0\nEngineLoader.start = lambda loader: loader\n"
    found = loaded_by(idle + serve)
    assert "starlette" in found and "llama_cpp" not in found


def test_windows_is_told_of_wsl() -> None:
    script = "import sys; sys.platform = 'win32'; import srbwriter"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: srbwriter runs on Linux and macOS.")
    assert "wsl --install" in run.stderr


def test_public_names_resolve() -> None:

    for name in srbwriter.__all__:
        assert getattr(srbwriter, name) is not None
    with pytest.raises(AttributeError, match="Nothing"):
        _ = srbwriter.Nothing  # pyright: ignore
