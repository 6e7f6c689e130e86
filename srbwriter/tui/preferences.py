"""Settings as they hold while the app runs: what was read at the start, and what the writer changed since.

A change is remembered in the overlay, never in the writer's own file. Knows no screen.
"""

from __future__ import annotations

import logging
from typing import Any, TypeVar

from srbwriter.config import Key, Settings, Source, Table, remember
from srbwriter.tui.options import OPTIONS, own_keys

T = TypeVar("T")
log = logging.getLogger(__name__)


class Preferences:
    """``preferences[KEY]`` is the value that holds now."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._changed: dict[str, Any] = {}
        named = {key.name for key in settings.table}
        self.table = Table(
            [*settings.table, *(key for key in OPTIONS if key.name not in named)], {"keys": own_keys}
        )

    def __getitem__(self, key: Key[T]) -> T:
        if key.name in self._changed:
            return self._changed[key.name]
        return self._settings[key]

    def source(self, key: Key[Any]) -> Source:
        """Where the value was said."""
        return "remembered" if key.name in self._changed else self._settings.source(key)

    def put(self, key: Key[Any], value: Any) -> str | None:
        """Hold ``value`` from now on and remember it.

        Returns:
            None, or in words why it will not hold the next time.
        """
        said = self._settings.source(key)
        self._changed[key.name] = value
        try:
            remember(self.table, {key: value})
        except OSError as error:
            log.warning("cannot remember %s: %s", key.name, error)
            return f"It holds until you leave; it cannot be kept: {error.strerror}"
        if said in ("flag", "environment", "file"):
            return f"It holds until you leave; the next time the {said} says {self._settings[key]} again."
        return None
