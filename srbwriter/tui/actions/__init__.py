"""What each command of the table does, by the command's id.

A handler translates a key into one or two verbs of the session and shows the result; it decides nothing that
another face would want too.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

Handler = Callable[..., Any]

HANDLERS: dict[str, Handler] = {}
"""Handlers by command id; each takes the write screen, and a numbered one the number as well."""


def verb(handler: Handler) -> Handler:
    """Enter a function as the handler of the command with its name."""
    HANDLERS[handler.__name__.rstrip("_")] = handler
    return handler


_MODULES = "branches marks taking story stories convert tree bin knobs view program"

for _module in _MODULES.split():
    import_module(f"{__name__}.{_module}")
