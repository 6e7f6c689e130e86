"""The table of all configuration keys, collected from every part of the program."""

from __future__ import annotations

from srbwriter.cli import serve
from srbwriter.config import Table, keys
from srbwriter.tui.options import OPTIONS, own_keys


def every_key(*, brief: bool = False) -> Table:
    """Return every key; ``brief``: without the engine's parameters, which take longest to import."""
    rows = [*keys.KEYS, *OPTIONS, *serve.OPTIONS]
    if not brief:
        from srbwriter import launch

        rows += launch.request_keys()
    return Table(rows, {"keys": own_keys})
