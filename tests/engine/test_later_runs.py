"""Nothing that an earlier run left on the disk changes a later one: not a killed load, not other options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

KILLED_WHILE_LOADING = """
import os, signal, sys
from srbwriter.engine.native import weights
weights.library().llama_model_load_from_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from srbwriter.cli import main
main(sys.argv[1:])
"""
WRITE = ("write", "Once", "-n", "2", "--max-tokens", "3")


def run_program(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "srbwriter", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def files() -> set[Path]:
    """Files below the home folder, other than logs."""
    home = Path(os.environ["HOME"])
    return {file for file in home.rglob("*") if file.is_file() and file.suffix != ".log"}


def test_a_killed_load_leaves_nothing_and_the_next_start_works() -> None:
    before = files()
    killed = subprocess.run([sys.executable, "-c", KILLED_WHILE_LOADING, *WRITE], capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    assert files() == before
    written = run_program(*WRITE)
    assert written.returncode == 0, written.stderr
    assert written.stdout.strip()
