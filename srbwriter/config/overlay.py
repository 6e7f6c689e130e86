"""What the program itself remembers, written beside the writer's own file and never into it.

Knows the overlay file and the table of keys; knows no face.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from srbwriter import paths
from srbwriter.config.keys import Key
from srbwriter.config.settings import Table, read_overlay


def remember(table: Table, values: Mapping[Key[Any], Any]) -> None:
    """Write ``values`` into the overlay, atomically; None makes the program forget a key.

    Raises:
        OSError: the state folder cannot be written; the overlay is then as it was.
    """
    import tomli_w

    remembered, _ = read_overlay(table)
    remembered.update({key.name: value for key, value in values.items()})
    document: dict[str, dict[str, Any]] = {}
    for name, value in remembered.items():
        if value is not None:
            section, _, leaf = name.partition(".")
            document.setdefault(section, {})[leaf] = _plain(value)
    paths.write_atomic(paths.overlay_file(), tomli_w.dumps(document).encode())


def _plain(value: Any) -> Any:
    """The TOML form of a value: what :meth:`Key.read_toml` reads back as the same."""
    if isinstance(value, Path):
        return str(value)
    return list(cast("tuple[Any, ...]", value)) if isinstance(value, tuple) else value
