"""Nothing that an earlier run left on the disk changes a later one: not a killed load, not other options."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine.native.context import flash_attention
from srbwriter.engine.types import EngineOptions

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


@pytest.mark.parametrize(
    ("options", "flash"),
    [
        ({}, "off"),
        ({"max_branches": 3}, "off"),
        ({"max_branches": 2}, "auto"),
        ({"max_branches": 2, "flash_attn": "off"}, "off"),
        ({"flash_attn": "on"}, "on"),
        ({"cache_type_v": "q8_0"}, "on"),
    ],
)
def test_flash_attention_follows_from_the_options(options: dict[str, Any], flash: str) -> None:
    given = EngineOptions(n_ctx=64, gpu_layers=0, threads=1, n_batch=256, n_ubatch=32, **options)
    assert flash_attention(given) == flash
