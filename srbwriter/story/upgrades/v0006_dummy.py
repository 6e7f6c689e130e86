"""Stands in for the step that adds checksums."""

from __future__ import annotations

from sqlite3 import Connection


def upgrade(db: Connection) -> None:
    del db
