"""Configuration in one place: the table of keys, the values of this run, and the remembered ones.

The writer's config.toml is only read. This package imports no engine and no face.
"""

from __future__ import annotations

from srbwriter.config import keys
from srbwriter.config.keys import Key
from srbwriter.config.settings import ConfigError, Setting, Settings, Source, Table, load, remember

__all__ = ["ConfigError", "Key", "Setting", "Settings", "Source", "Table", "keys", "load", "remember"]
