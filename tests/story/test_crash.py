"""Nothing that was acknowledged is missing after a SIGKILL, whenever it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks")

INSTANTS = 32


def kill_writers(folder: Path, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.story.crash_child", str(folder), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_no_acknowledged_word_is_missing(tmp_path: Path) -> None:
    seen = kill_writers(tmp_path, INSTANTS)
    assert seen["missing"] == []
    assert seen["problems"] == []
    assert seen["promised"] > 20 * INSTANTS
    assert seen["outcome"]["killed"] >= 20, seen["outcome"]  # of those at a time, some come when all is done
