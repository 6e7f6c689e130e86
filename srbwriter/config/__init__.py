"""Configuration in one place: the table of keys, what holds in this run, and what is remembered.

The writer's config.toml is only ever read. This room knows no engine and no face.
"""

from __future__ import annotations

from srbwriter.config import keys
from srbwriter.config.keys import Key
from srbwriter.config.settings import (
    ConfigError,
    Settings,
    Source,
    Table,
    load,
    remember,
)

__all__ = [
    "ConfigError", "Key", "Settings", "Source", "Table", "keys", "load", "remember",
]  # fmt: skip
