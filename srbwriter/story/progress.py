"""Count words by day and by author, and the time spent writing.

Each action records the words that it typed and picked, and they count for the day of the action. Undo
subtracts them from that day, and redo adds them again. Imported words and branches that were not picked count
for no day.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

from srbwriter.story.model import Author, NodeId, Progress
from srbwriter.story.shapes import numbers_fit
from srbwriter.story.store import Store
from srbwriter.story.tree import Tree

IDLE_SECONDS = 300.0
"""A longer gap between two changes does not count as writing time (as in novelWriter)."""


class DayLog:
    """Records the words and the time of each day on which a story is written."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._last = self._saved = clock()

    def now(self) -> float:
        """Return the Unix time in seconds."""
        return self._clock()

    def record(self, typed: int, picked: int, generated: int, at: float | None = None) -> None:
        """Record words for the day of ``at`` (now) and the time since the last change, in a transaction."""
        now = self._clock()
        gap = max(0.0, now - self._last)
        self._add(now if at is None else at, Progress(typed, picked, generated))
        self._add(now, Progress(seconds=gap if gap <= IDLE_SECONDS else 0.0))
        self._last = now

    def settle(self) -> None:
        """Keep what was recorded: the transaction is on the disk."""
        self._saved = self._last

    def revert(self) -> None:
        """Forget what was recorded in the reverted transaction."""
        self._last = self._saved

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


def by_author(tree: Tree, nodes: list[NodeId]) -> dict[Author, int]:
    """Count the words of ``nodes`` by author; a word across two nodes counts for both."""
    words = Counter[Author]()
    for node in nodes:
        words[tree[node].author] += tree[node].words
    return dict(+words)
