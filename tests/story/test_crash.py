"""Nothing that was acknowledged is missing after a SIGKILL, whenever it comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sizes import few_or_all

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="writers are forks")

INSTANTS = {False: 32, True: 224}


def kill_writers(folder: Path, *arguments: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.story.crash_child", str(folder), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@few_or_all
def test_no_acknowledged_word_is_missing(tmp_path: Path, full: bool) -> None:
    seen = kill_writers(tmp_path, INSTANTS[full])
    assert seen["missing"] == []
    assert seen["problems"] == []
    assert seen["promised"] > 20 * INSTANTS[full]
    outcome = seen["outcome"]
    if not full:
        assert outcome["killed"] >= 28, outcome
        return
    assert outcome["killed"] >= 200, outcome
    assert all(
        outcome.get(f"{how} {place}", 0) >= 5
        for how in ("before", "inside", "after")
        for place in ("log", "file")
    )
    # "file" is a checkpoint, "log" a transaction, "open" for every fourth writer an upgrade
    assert all(outcome.get(f"during {verb}", 0) >= 3 for verb in ("open", "type", "stream", "pick")), outcome
    assert outcome["timed"] >= 30


def test_a_promise_made_too_early_is_found_out(tmp_path: Path) -> None:
    seen = kill_writers(tmp_path, 24, "lie")
    assert seen["missing"]
