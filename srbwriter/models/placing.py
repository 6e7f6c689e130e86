"""Giving a finished file its name without ever overwriting another."""

from __future__ import annotations

import os
from pathlib import Path


def place(finished: Path, target: Path) -> None:
    """Make ``finished`` be ``target``. Raises FileExistsError if that is taken, or OSError."""
    try:
        os.link(finished, target)  # unlike a rename it fails rather than overwrite
    except FileExistsError:
        raise
    except OSError:  # a disk without links, such as exFAT
        if target.exists():
            raise FileExistsError(target) from None
        finished.rename(target)
