"""Count words by day, by author and by sitting, and the time spent writing.

Each action records the words that it typed and picked, and they count for the day of the action. Undo
subtracts them from that day, and redo adds them again. Imported words and branches that were not picked count
for no day.
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
"""A longer gap between two changes does not count as writing time (as in novelWriter)."""


class _Log(NamedTuple):
    """The row of a sitting: its number (None before it has one), its last change, and its total."""

    row: int | None
    last: float
    progress: Progress


class SittingLog:
    """Records the words and the time of a sitting, from opening a story to closing it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self.began = clock()
        self._log = self._saved = _Log(None, self.began, Progress())

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return self._clock()

    def record(self, typed: int, picked: int, generated: int, at: float | None = None) -> None:
        """Record words for the day of ``at`` (now) and the time since the last change, in a transaction."""
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
        """Keep what was recorded: the transaction is on the disk."""
        self._saved = self._log

    def revert(self) -> None:
        """Forget what was recorded in the reverted transaction."""
        self._log = self._saved

    def _add(self, at: float, more: Progress) -> None:
        self._store.db.execute(
            "INSERT INTO progress VALUES (?, ?, ?, ?, ?) ON CONFLICT (day) DO UPDATE SET "
            "typed = typed + excluded.typed, picked = picked + excluded.picked, "
            "generated = generated + excluded.generated, seconds = seconds + excluded.seconds",
            (day_of(at), more.typed, more.picked, more.generated, more.seconds),
        )


def taken(tree: Tree, was: NodeId, node: NodeId) -> int:
    """Return the number of the model's words that a move from ``was`` to ``node`` adds to the path.

    Words that a person typed among them were counted when they were typed.
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
    """Return the local calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def days(store: Store) -> dict[str, Progress]:
    """Return the progress by day, oldest first."""
    with store.reading() as db:
        rows = db.execute("SELECT day, typed, picked, generated, seconds FROM progress ORDER BY day")
        return {
            row[0]: Progress(*row[1:]) for row in rows if isinstance(row[0], str) and numbers_fit(row[1:])
        }


def sittings(store: Store) -> list[Sitting]:
    """Return the sittings in which words were written, oldest first."""
    with store.reading() as db:
        rows = db.execute("SELECT typed, picked, generated, seconds, began, ended FROM sitting ORDER BY id")
        return [Sitting(*row[:4], began=row[4], ended=row[5]) for row in rows if numbers_fit(row)]


def by_author(tree: Tree, nodes: list[NodeId]) -> dict[Author, int]:
    """Count the words of ``nodes`` by author; a word across two nodes counts for both."""
    words = Counter[Author]()
    for node in nodes:
        words[tree[node].author] += tree[node].words
    return dict(+words)
