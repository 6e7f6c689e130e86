"""Numbered steps that bring a story file up to date; each runs in its own transaction.

A step is a module with one function and is never changed once released: write the next one. Step N
takes a file of ``user_version`` N-1 to N.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sqlite3 import Connection

from srbwriter.story.upgrades import (
    v0001_tree,
    v0002_history,
    v0003_search,
    v0004_progress,
    v0005_today,
    v0006_dummy,
    v0007_search,
)

STEPS: Sequence[Callable[[Connection], None]] = (
    v0001_tree.upgrade,
    v0002_history.upgrade,
    v0003_search.upgrade,
    v0004_progress.upgrade,
    v0005_today.upgrade,
    v0006_dummy.upgrade,
    v0007_search.upgrade,
)

VERSION = len(STEPS)


def upgrade(db: Connection, steps: Sequence[Callable[[Connection], None]] = STEPS) -> None:
    """Run what is missing. ``db`` must be in autocommit mode."""
    version: int = db.execute("PRAGMA user_version").fetchone()[0]
    for number, step in enumerate(steps[version:], start=version + 1):
        db.execute("BEGIN IMMEDIATE")
        try:
            step(db)
            db.execute(f"PRAGMA user_version = {number}")
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
