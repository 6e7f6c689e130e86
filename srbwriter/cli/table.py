"""The whole table of keys: each room's rows, put together in the one place that knows them all."""

from __future__ import annotations

from srbwriter.cli import serve
from srbwriter.config import Table, keys
from srbwriter.tui.options import OPTIONS, own_keys

_LATE = {"keys": own_keys}


def every_key() -> Table:
    """Every key of the program."""
    from srbwriter import launch

    return Table((*keys.KEYS, *launch.request_keys(), *OPTIONS, *serve.OPTIONS), _LATE)


def overview() -> Table:
    """The keys less the engine's parameters, which take longer to load than all others together."""
    return Table((*keys.KEYS, *OPTIONS, *serve.OPTIONS), _LATE)
