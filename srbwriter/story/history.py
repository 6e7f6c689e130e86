"""Undo and redo without end: a tree of actions, kept in the file, of which nothing is dropped.

An undone action followed by a new one is not forgotten: it stays beside the new one, and undoing
back to where they part lets either be done again. Knows how actions are kept, not what verbs mean.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from srbwriter.story.changes import Change, dump, load

if TYPE_CHECKING:
    from srbwriter.story.desk import Desk
    from srbwriter.story.types import NodeId


@dataclass(slots=True)
class Action:
    """One undoable step: ``verb`` on ``node``. ``was`` and ``became`` are the current node around it,
    ``typed`` and ``picked`` the words it brought: see :mod:`srbwriter.story.progress`."""

    id: int
    parent: int
    verb: str
    node: NodeId
    at: float
    was: NodeId
    became: NodeId
    typed: int = 0
    picked: int = 0
    touched: int = 0
    changes: list[Change] = field(default_factory=list["Change"])

    def run(self, desk: Desk, change: Change) -> None:
        """Do ``change`` as part of this action."""
        change.do(desk)
        self.changes.append(change)


class History:
    """The actions of one story, and the one after which it stands now."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def head(self) -> int:
        """The last action done and not undone; 0 at the beginning."""
        return int(self._desk.value("head", 0))

    @contextmanager
    def action(self, verb: str, node: NodeId) -> Generator[Action]:
        """A new action in a transaction of its own; the current node follows ``became``."""
        with self._desk.change():
            action = self._blank(verb, node)
            yield action
            self._desk.put_value("head", action.id)
            self._desk.put_value("current", action.became)
            self._desk.sitting.record(action.typed, action.picked, 0, action.at)
            self._touch(action)

    def _blank(self, verb: str, node: NodeId) -> Action:
        here = self._desk.current
        return Action(self._next(), self.head, verb, node, self._desk.sitting.now(), here, here)

    def _next(self) -> int:
        row = self._desk.store.db.execute("SELECT coalesce(max(id), 0) + 1 FROM action").fetchone()
        return int(row[0])

    def _touch(self, action: Action) -> None:
        """Of the actions that follow one action, this is the one that was done last."""
        action.touched = int(self._desk.value("touched", 0)) + 1
        self._desk.put_value("touched", action.touched)
        self.save(action)

    def save(self, action: Action) -> None:
        """Write ``action``, inside a transaction."""
        self._desk.store.db.execute(
            "INSERT OR REPLACE INTO action (id, parent, verb, node, at, was, became, typed, picked, "
            "touched, changes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                action.id, action.parent, action.verb, action.node, action.at, action.was, action.became,
                action.typed, action.picked, action.touched, dump(action.changes),
            ),
        )  # fmt: skip

    def get(self, number: int) -> Action | None:
        """An action by number."""
        with self._desk.store.reading() as db:
            row = db.execute(
                "SELECT id, parent, verb, node, at, was, became, typed, picked, touched, changes "
                "FROM action WHERE id = ?",
                (number,),
            ).fetchone()
        return None if row is None else Action(*row[:10], changes=load(row[10]))

    def futures(self) -> list[int]:
        """The actions that :meth:`redo` could do now, the one that was done last first."""
        with self._desk.store.reading() as db:
            rows = db.execute("SELECT id FROM action WHERE parent = ? ORDER BY touched DESC", (self.head,))
            return [row[0] for row in rows]

    def undo(self) -> Action | None:
        """Undo the last action and return it; None at the beginning."""
        with self._desk.change():
            action = self.get(self.head)
            if action is None:
                return None
            for change in reversed(action.changes):
                change.undo(self._desk)
            action.became = self._desk.current
            self._arrive(action, action.parent, action.was)
            self._desk.sitting.record(-action.typed, -action.picked, 0, action.at)
        return action

    def redo(self, number: int | None = None) -> Action | None:
        """Do the last undone action again, or one of :meth:`futures`; None if there is none."""
        with self._desk.change():
            futures = self.futures()
            if number is None:
                number = futures[0] if futures else 0
            action = self.get(number) if number in futures else None
            if action is None:
                return None
            for change in action.changes:
                change.do(self._desk)
            action.was = self._desk.current
            self._arrive(action, action.id, action.became)
            self._desk.sitting.record(action.typed, action.picked, 0, action.at)
        return action

    def _arrive(self, action: Action, head: int, current: NodeId) -> None:
        desk = self._desk
        self._touch(action)
        desk.put_value("head", head)
        desk.put_value("current", desk.tree.nearest_living(current))
