"""Which of a story's words are of today.

The rule: words on the path to the current node count for the day on which they were typed, or on which
the take they stand in was picked first. So a word counts once; undoing or deleting takes it off again, and
so does leaving it for another branch; coming back puts it on. What an import or a sample opening brought
counts for no day, nor does a take that nobody picked. In a node that was there before today the words it
has more than then count, and never less than none.

Knows how many words of which node are of today, not what verbs mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from srbwriter.story.store import Store
from srbwriter.story.tree import Tree
from srbwriter.story.types import NodeId

_WAITING = ""  # the day of a take that was never picked
_OPEN_WORD = 2  # an edge of text that runs on into what stands beside it


class Row(NamedTuple):
    """Of the words of a node: how many are from before today, and how many a pick of today brought.

    ``taken`` is for nodes whose author is no model; in one of a model, all words of today are picked.
    """

    old: int = 0
    taken: int = 0


class Ledger:
    """One row for each node that was written or picked today; a node without is from before."""

    def __init__(self, store: Store, today: Callable[[], str]) -> None:
        self._store, self._today = store, today
        self._day: str | None = None
        self._rows: dict[NodeId, Row] = {}
        self._waiting: set[NodeId] = set()

    def forget(self) -> None:
        """Read it again when it is needed next: what was written may not have been kept."""
        self._day = None

    # -- what happens to nodes, inside a transaction -----------------------------------------------

    def wait(self, nodes: Iterable[NodeId]) -> None:
        """``nodes`` are takes: their words count once they are picked."""
        self._load()
        for node in nodes:
            self._rows.pop(node, None)
            self._waiting.add(node)
            self._write(node, _WAITING, Row())

    def join(self, nodes: Iterable[NodeId]) -> None:
        """Of ``nodes``, those that wait are part of the story from today on."""
        self._load()
        if self._waiting:
            for node in [node for node in nodes if node in self._waiting]:
                self.put(node, Row())

    def begin(self, node: NodeId) -> None:
        """All of ``node`` is typed today."""
        self.put(node, Row())

    def touch(self, tree: Tree, node: NodeId) -> None:
        """The text of ``node`` is about to change in place."""
        self._load()
        if node not in self._waiting and (node not in self._rows or tree[node].author == "model"):
            self.put(node, self._sum(tree, [node]))

    def copy(self, source: NodeId, to: NodeId) -> None:
        """``to`` has the text of ``source``."""
        self._load()
        if source in self._rows:
            self.put(to, self._rows[source])
        elif source in self._waiting:
            self.wait([to])
        else:
            self._drop(to)

    def carry(self, tree: Tree, sources: Iterable[NodeId], to: NodeId) -> None:
        """``to`` is written anew from the text of ``sources``: only what is more than theirs is new."""
        self._load()
        self.put(to, self._sum(tree, sources))

    def cut(self, tree: Tree, node: NodeId, rest: NodeId) -> None:
        """``node`` gave the end of its text to ``rest``. What is old of it stands before what is new."""
        self.copy(node, rest)
        row = self._rows.get(node)
        if row is not None:
            old = min(row.old, tree[node].words)
            taken = min(row.taken, tree[node].words - old)
            self.put(node, Row(old, taken))
            self.put(rest, Row(row.old - old, row.taken - taken))

    def joined(self, tree: Tree, node: NodeId, rest: NodeId) -> None:
        """``rest`` is about to become the end of ``node``."""
        self._load()
        both = node, rest
        if any(n in self._rows for n in both) or len(self._waiting.intersection(both)) == 1:
            self.put(node, self._sum(tree, both))

    def _sum(self, tree: Tree, nodes: Iterable[NodeId]) -> Row:
        old = taken = 0
        for node in nodes:
            words, row = tree[node].words, self._rows.get(node)
            if row is None:
                row = Row(0 if node in self._waiting else words)
            old += row.old
            taken += max(0, words - row.old) if tree[node].author == "model" else row.taken
        return Row(old, taken)

    def put(self, node: NodeId, row: Row) -> None:
        self._load()
        self._waiting.discard(node)
        self._rows[node] = row
        self._write(node, self._day or "", row)

    def _drop(self, node: NodeId) -> None:
        if node in self._rows or node in self._waiting:
            self._rows.pop(node, None)
            self._waiting.discard(node)
            self._store.db.execute("DELETE FROM today WHERE id = ?", (node,))

    def _write(self, node: NodeId, day: str, row: Row) -> None:
        self._store.db.execute("INSERT OR REPLACE INTO today VALUES (?, ?, ?, ?)", (node, day, *row))

    def _load(self) -> None:
        day = self._today()
        if day == self._day:
            return
        with self._store.reading() as db:
            rows = db.execute("SELECT id, day, old, taken FROM today WHERE day IN (?, ?)", (day, _WAITING))
            found = rows.fetchall()
        self._rows = {row[0]: Row(row[2], row[3]) for row in found if row[1] == day}
        self._waiting = {row[0] for row in found if row[1] == _WAITING}
        self._day = day

    # -- look --------------------------------------------------------------------------------------

    def count(self, tree: Tree, current: NodeId) -> tuple[int, int]:
        """Words of today on the path to ``current``: (typed, picked)."""
        self._load()
        if not self._rows:
            return 0, 0
        parts: list[tuple[int, int]] = []
        below: NodeId | None = None
        for node in tree.upward(current):
            measure = tree[node].measure
            if measure.empty:
                continue
            if below is not None:  # a word that runs on into it from here is counted here
                runs_on = tree[below].measure.left == measure.right == _OPEN_WORD
                parts.append(self._of(tree, below, int(runs_on)))
            below = node if node in self._rows else None
        if below is not None:
            parts.append(self._of(tree, below, 0))
        return sum(part[0] for part in parts), sum(part[1] for part in parts)

    def _of(self, tree: Tree, node: NodeId, shared: int) -> tuple[int, int]:
        row = self._rows[node]
        fresh = max(0, tree[node].words - row.old - shared)
        if tree[node].author == "model":
            return 0, fresh
        taken = min(row.taken, tree[node].words - row.old) if fresh else 0
        return fresh - taken, taken
