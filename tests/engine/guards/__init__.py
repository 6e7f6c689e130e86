"""Native aborts end the process, so what must not abort is run in a child."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[3]

_PRELUDE = """
import resource
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
import numpy as np
from srbwriter.engine.types import *
from tests.fakes.short_model import short_model
"""


def in_turn(pieces: Iterable[str]) -> str:
    """Return the code that runs ``pieces`` one after the other, each with names of its own.

    The last words of the child are those of the piece that ended it.
    """
    return f"""
import sys
for piece in {list(map(dedent, pieces))!r}:
    sys.stderr.write(piece)
    exec(piece, dict(globals()))
"""


def with_threads() -> dict[str, str]:
    """The environment of a child that may have several threads; engines of tests have one."""
    return {name: value for name, value in os.environ.items() if name != "OMP_THREAD_LIMIT"}


def run_child(*code: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    """Run pieces of ``code`` in a Python of its own with the types of the engine at hand.

    It has as many threads as it asks for. A negative return code is the signal that killed it.
    """
    return subprocess.run(
        [sys.executable, "-c", "\n".join((_PRELUDE, *map(dedent, code)))],
        cwd=ROOT,
        env=with_threads(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
