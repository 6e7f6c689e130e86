"""Going over a story file: does the database hold, and does the tree?

Reads only. Knows tables and the rules of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from srbwriter.story.open import open_story
from srbwriter.story.store import Store
from srbwriter.story.tree import Tree
from srbwriter.story.types import Damage
from srbwriter.story.words import count


@dataclass(frozen=True, slots=True)
class Report:
    """What was found; no problems, no damage: a sound story."""

    path: Path
    nodes: int
    problems: tuple[str, ...] = ()
    damage: Damage | None = None

    @property
    def sound(self) -> bool:
        return not self.problems and self.damage is None


def check(path: Path) -> Report:
    """Go over the whole file. Raises NotAStory or TooNew."""
    opened = open_story(path, readonly=True)
    try:
        tree = Tree(opened.store.entries())
        problems = [*_database(opened.store), *_shape(tree), *_text(opened.store, tree)]
        return Report(opened.path, len(tree), tuple(problems), opened.damage)
    finally:
        opened.close()


def _database(store: Store) -> list[str]:
    with store.reading() as db:
        rows = [str(row[0]) for row in db.execute("PRAGMA integrity_check(20)")]
    return [] if rows == ["ok"] else rows


def _shape(tree: Tree) -> list[str]:
    reached = set(tree.reading_order(every=True))
    return [f"node {e.id} cannot be reached from the root" for e in tree if e.id not in reached]


def _text(store: Store, tree: Tree) -> list[str]:
    problems: list[str] = []
    ids = sorted(entry.id for entry in tree)
    for start in range(0, len(ids), 500):
        chunk = ids[start : start + 500]
        texts = store.texts(chunk)
        for node in chunk:
            text = texts.get(node)
            if text is None:
                problems.append(f"node {node} has no text")
            elif len(text) != tree[node].chars or count(text).words != tree[node].words:
                problems.append(f"node {node}: the index says {tree[node].chars} characters, not {len(text)}")
    return problems
