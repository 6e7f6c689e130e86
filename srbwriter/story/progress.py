"""Words by day, by author and by sitting. Idle time does not count as writing.

A plain count: every action says how many words it typed and how many it picked, and they count for the day
on which it was done. Undoing it takes them off that day again, doing it once more puts them back. What an
import brought counts for no day, nor does a take that nobody picked.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from srbwriter.story.model import Author, NodeId, Progress, Sitting
from srbwriter.story.shapes import numbers_fit
from srbwriter.story.store import Store
from srbwriter.story.tree import Tree

IDLE_SECONDS = 300.0
"""A gap longer than this between two changes is not counted as writing (as novelWriter does)."""


class _Log(NamedTuple):
    """The row of a sitting: its number (None before it has one), when it was last written to, and its sum."""

    row: int | None
    last: float
    progress: Progress


class SittingLog:
    """Writes down what comes of a story from opening it to closing it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self.began = clock()
        self._log = self._saved = _Log(None, self.began, Progress())

    def now(self) -> float:
        """Unix seconds by the writer's clock."""
        return self._clock()

    def record(self, typed: int, picked: int, generated: int, at: float | None = None) -> None:
        """Write down more words, for the day of ``at`` (now), and the time spent, inside a transaction."""
        row, last, total = self._log
        now = self._clock()
        gap = max(0.0, now - last)
        words = Progress(typed, picked, generated)
        spent = Progress(seconds=gap if gap <= IDLE_SECONDS else 0.0)
        total = total + words + spent
        self._add(now if at is None else at, words)
        self._add(now, spent)
        made = self._store.db.execute(
            "INSERT OR REPLACE INTO sitting VALUES (?, ?, ?, ?, ?, ?, ?)",
            (row, self.began, now, total.seconds, total.typed, total.picked, total.generated),
        )
        self._log = _Log(row or made.lastrowid, now, total)

    def settle(self) -> None:
        """The transaction is on the disk."""
        self._saved = self._log

    def revert(self) -> None:
        """The transaction came to nothing."""
        self._log = self._saved

    def _add(self, at: float, more: Progress) -> None:
        self._store.db.execute(
            "INSERT INTO progress VALUES (?, ?, ?, ?, ?) ON CONFLICT (day) DO UPDATE SET "
            "typed = typed + excluded.typed, picked = picked + excluded.picked, "
            "generated = generated + excluded.generated, seconds = seconds + excluded.seconds",
            (day_of(at), more.typed, more.picked, more.generated, more.seconds),
        )


def taken(tree: Tree, was: NodeId, node: NodeId) -> int:
    """The model's words that going on from ``was`` to ``node`` brings onto the path.

    What a person typed among them was counted when it was typed.
    """
    before = set(tree.upward(was))
    fresh: list[NodeId] = []
    shared = node
    for shared in tree.upward(node):
        if shared in before:
            break
        fresh.append(shared)
    others = sum(tree[n].words for n in fresh if tree[n].author not in ("model", "edited"))
    return max(0, tree.count(node).words - tree.count(shared).words - others)


def day_of(now: float) -> str:
    """The writer's calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def days(store: Store) -> dict[str, Progress]:
    """Progress by day, oldest first."""
    with store.reading() as db:
        rows = db.execute("SELECT day, typed, picked, generated, seconds FROM progress ORDER BY day")
        return {
            row[0]: Progress(*row[1:]) for row in rows if isinstance(row[0], str) and numbers_fit(row[1:])
        }


def sittings(store: Store) -> list[Sitting]:
    """Every sitting in which something was written, oldest first."""
    with store.reading() as db:
        rows = db.execute("SELECT typed, picked, generated, seconds, began, ended FROM sitting ORDER BY id")
        return [Sitting(*row[:4], began=row[4], ended=row[5]) for row in rows if numbers_fit(row)]


def by_author(tree: Tree, nodes: list[NodeId]) -> dict[Author, int]:
    """Words of ``nodes`` by author; a word across two nodes counts for both."""
    words = Counter[Author]()
    for node in nodes:
        words[tree[node].author] += tree[node].words
    return dict(+words)
