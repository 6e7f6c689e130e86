"""Words by day, by author and by sitting. Idle time does not count as writing.

Words are net: what is undone is taken off again. Which words are of a day says
:mod:`srbwriter.story.ledger`. Knows the tables of progress, not verbs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from srbwriter.story.draft import Author
from srbwriter.story.store import Store
from srbwriter.story.tree import Tree
from srbwriter.story.types import NodeId

IDLE_SECONDS = 300.0
"""A gap longer than this between two changes is not counted as writing (as novelWriter does)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Words a writer typed and picked that are still in the text, words the model wrote, seconds spent."""

    typed: int = 0
    picked: int = 0
    generated: int = 0
    seconds: float = 0.0

    @property
    def words(self) -> int:
        """Words the story grew by."""
        return self.typed + self.picked

    def __add__(self, other: Progress) -> Progress:
        return Progress(
            self.typed + other.typed,
            self.picked + other.picked,
            self.generated + other.generated,
            self.seconds + other.seconds,
        )


class Sitting:
    """From opening a story to closing it."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.time) -> None:
        self._store, self._clock = store, clock
        self._row: int | None = None
        self.began = self._last = clock()
        self.progress = Progress()

    def today(self) -> str:
        """The writer's calendar day, ISO 8601."""
        return day_of(self._clock())

    def added(self, typed: int, picked: int) -> tuple[int, int]:
        """What ``typed`` and ``picked``, the words of today, are beyond those written down so far."""
        with self._store.reading() as db:
            row = db.execute("SELECT typed, picked FROM progress WHERE day = ?", (self.today(),)).fetchone()
        return (typed, picked) if row is None else (typed - row[0], picked - row[1])

    def record(self, typed: int, picked: int, generated: int) -> Callable[[], None]:
        """Write down more words, inside a transaction. Call the result once that is committed."""
        now = self._clock()
        gap = max(0.0, now - self._last)
        more = Progress(typed, picked, generated, gap if gap <= IDLE_SECONDS else 0.0)
        total = self.progress + more
        row = self._write(now, more, total)

        def committed() -> None:
            self._row, self._last, self.progress = row, now, total

        return committed

    def _write(self, now: float, more: Progress, total: Progress) -> int:
        db = self._store.db
        db.execute(
            "INSERT INTO progress VALUES (?, ?, ?, ?, ?) ON CONFLICT (day) DO UPDATE SET "
            "typed = typed + excluded.typed, picked = picked + excluded.picked, "
            "generated = generated + excluded.generated, seconds = seconds + excluded.seconds",
            (day_of(now), more.typed, more.picked, more.generated, more.seconds),
        )
        made = db.execute(
            "INSERT OR REPLACE INTO sitting VALUES (?, ?, ?, ?, ?, ?, ?)",
            (self._row, self.began, now, total.seconds, total.typed, total.picked, total.generated),
        )
        return self._row or made.lastrowid or 1


def day_of(now: float) -> str:
    """The writer's calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def days(store: Store) -> dict[str, Progress]:
    """Progress by day, oldest first."""
    with store.reading() as db:
        rows = db.execute("SELECT day, typed, picked, generated, seconds FROM progress ORDER BY day")
        return {row[0]: Progress(*row[1:]) for row in rows}


def sittings(store: Store) -> list[tuple[float, float, Progress]]:
    """(began, ended, progress) of every sitting in which something was written, oldest first."""
    with store.reading() as db:
        rows = db.execute(
            "SELECT began, ended, typed, picked, generated, seconds FROM sitting ORDER BY id"
        )  # fmt: skip
        return [(row[0], row[1], Progress(*row[2:])) for row in rows]


def by_author(tree: Tree, nodes: list[NodeId]) -> dict[Author, int]:
    """Words of ``nodes`` by author; a word across two nodes counts for both."""
    words: dict[Author, int] = {}
    for node in nodes:
        entry = tree[node]
        if entry.words:
            words[entry.author] = words.get(entry.author, 0) + entry.words
    return words
