"""Checks of a story file: the database, the tree, and the checksum of each text. Changes nothing."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from srbwriter import paths
from srbwriter.story import store
from srbwriter.story.connection import check_file
from srbwriter.story.model import Damage, DamagedStory
from srbwriter.story.open import read_story


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a check; a sound story has neither problems nor damage."""

    path: Path
    nodes: int
    problems: tuple[str, ...] = ()
    damage: Damage | None = None

    @property
    def sound(self) -> bool:
        return not self.problems and self.damage is None


def check(path: Path) -> Report:
    """Check the whole file. Raises NotAStory, TooNew, or NotSaved without room for a private copy."""
    path = paths.expanded(path).resolve()
    check_file(path)
    try:
        image = read_story(path)
    except DamagedStory as error:
        return Report(path, 0, damage=Damage(error.problem, 0))
    nodes = sum(table == "node" for table, _ in image.rows)
    problems: list[str] = []
    with suppress(DamagedStory, sqlite3.Error), store.opened(path) as db:
        problems = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
    return Report(path, nodes, () if problems == ["ok"] else tuple(problems), image.damage)
