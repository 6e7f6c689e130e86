"""The HTTP face: the dialects of many programs on one port, and pages; beside it conversations in lines.

Translates requests into the engine's vocabulary and its events into frames; decides nothing about sampling,
scheduling or stories. Starlette and uvicorn are imported here and nowhere else in the program.
"""

from __future__ import annotations

from .run import Loaded, Loader
from .serve import ServerHandle, check_settings, run, start_in_thread
from .settings import AddressError, ServerError, ServerSettings, read_keys

__all__ = [
    "AddressError", "Loaded", "Loader", "ServerError", "ServerHandle", "ServerSettings",
    "check_settings", "read_keys", "run", "start_in_thread",
]  # fmt: skip
