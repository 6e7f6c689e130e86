"""The table of all configuration keys, collected from every part of the program."""

from __future__ import annotations

from srbwriter.cli import serve
from srbwriter.config import Table, keys
from srbwriter.tui.options import OPTIONS, own_keys

_LATE = {"keys": own_keys}


def every_key() -> Table:
    """Return every key of the program."""
    from srbwriter import launch

    return Table((*keys.KEYS, *launch.request_keys(), *OPTIONS, *serve.OPTIONS), _LATE)


def overview() -> Table:
    """Return all keys but the engine's parameters, which take longer to import than all others together."""
    return Table((*keys.KEYS, *OPTIONS, *serve.OPTIONS), _LATE)
