"""srbwriter: write a story with many live branches of a language model on your own machine.

This module holds the public names and nothing else. They are resolved on first use (PEP 562), so that
``import srbwriter`` stays cheap: it must never load the native library, a user interface or a server.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from srbwriter.version import __version__

if TYPE_CHECKING:
    from srbwriter.engine import Engine, Request, Sampling
    from srbwriter.session import Session
    from srbwriter.story import Story

if sys.platform == "win32":
    raise ImportError(
        "srbwriter runs on Linux and macOS. On Windows it runs in WSL: enter `wsl --install` in a terminal, "
        "start Ubuntu from the menu, and install srbwriter there."
    )

__all__ = ["Engine", "Request", "Sampling", "Session", "Story", "__version__"]

_HOME = {
    "Engine": "srbwriter.engine", "Request": "srbwriter.engine", "Sampling": "srbwriter.engine",
    "Session": "srbwriter.session", "Story": "srbwriter.story",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
