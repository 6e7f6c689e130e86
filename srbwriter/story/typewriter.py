"""Words from the keyboard: where they go, and how many of them one undo takes back.

Generated text is never typed over: a changed take stands beside the old one unless the writer says
otherwise. Keystrokes in one place, without a pause, up to the end of a sentence are one action.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from srbwriter.story.changes import Respell, SetEntry, pack
from srbwriter.story.desk import Desk
from srbwriter.story.diff import same_end, same_start
from srbwriter.story.history import Action, History
from srbwriter.story.runs import change, encode, plain
from srbwriter.story.store import Body
from srbwriter.story.types import ROOT, NodeId, NoSuchNode, Refused, State

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

UNIT_CHARS = 160
"""An action takes at most about this much typing; it ends at a word."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")


@dataclass(slots=True)
class _Unit:
    """The action that typing goes on in, and the text it began from."""

    action: int
    node: NodeId
    before: str
    later: NodeId  # nodes from this number on came after it began
    last: float


class Typewriter:
    """Typing and editing for one story."""

    def __init__(
        self,
        desk: Desk,
        history: History,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk, self._history, self._clock = desk, history, clock
        self._unit: _Unit | None = None
        desk.on_revert.append(self.stop)  # the number of an action that came to nothing is given again

    def stop(self) -> None:
        """Whatever is typed next is an action of its own."""
        self._unit = None

    def append(self, node: NodeId, text: str) -> NodeId:
        """Type ``text`` at the end of ``node``; returns the node that holds it."""
        self._writable(node)
        if not text:
            return node
        if self._in_place(node):
            return self._respell(node, self._desk.body(node).text + text)
        return self._new(node, text)

    def edit(self, node: NodeId, text: str, overwrite: bool) -> NodeId:
        """Make ``text`` the text of ``node``; returns the node that holds it."""
        self._writable(node)
        if node == ROOT:
            return self._new(node, text) if text else node
        if self._desk.written_at(node) is not None:
            raise Refused(f"node {node} is still being written — stop it first, or type at its end")
        if text == self._desk.body(node).text:
            return node
        if self._desk.tree[node].author == "model" and not overwrite:
            return self._fork(node, text)
        return self._respell(node, text)

    def _writable(self, node: NodeId) -> None:
        if self._desk.tree[node].state != State.LIVING:
            raise NoSuchNode(node, "is in the bin")

    def _in_place(self, node: NodeId) -> bool:
        """Whether words can be added to ``node`` itself: nothing follows it, and a person wrote it."""
        tree = self._desk.tree
        followed = any(tree[c].state != State.ABSORBED for c in tree.all_children(node))
        return not followed and node != ROOT and tree[node].author in ("writer", "edited")

    # -- the three ways ----------------------------------------------------------------------------

    def _new(self, parent: NodeId, text: str) -> NodeId:
        if self._desk.written_at(parent) is not None:
            raise Refused(f"node {parent} is still being written — type into it with interject, or stop it")
        with self._history.action("type", parent) as action:
            node = self._desk.add(parent, plain(text, "writer"), "writer")
            self._created(action, node)
            action.typed = self._words(node) - self._words(parent)
        self._unit = _Unit(action.id, node, "", self._desk.tree.next_id, self._clock())
        return node

    def _fork(self, node: NodeId, text: str) -> NodeId:
        desk = self._desk
        entry, body, old = desk.tree[node], desk.body(node), desk.runs(node)
        with self._history.action("edit", node) as action:
            runs, _ = change(old, text, "writer", desk.token_sizes)
            made = Body(recipe=body.recipe, seed=body.seed, settings=body.settings)
            assert entry.parent is not None  # the root has no author "model"
            fork = desk.add(entry.parent, runs, "edited", place=entry.place, body=made)
            desk.tree.put(desk.tree[fork]._replace(flags=entry.flags))
            self._created(action, fork)
            action.typed = self._words(fork) - self._words(node)
        self._unit = _Unit(action.id, fork, "", self._desk.tree.next_id, self._clock())
        return fork

    def _created(self, action: Action, node: NodeId) -> None:
        """Undoing a creation puts the node into the bin: its words stay."""
        action.changes.append(SetEntry(node, {"state": State.BINNED}, {"state": State.LIVING}))
        action.became = node

    def _respell(self, node: NodeId, text: str) -> NodeId:
        unit = self._unit
        if unit is not None and self._goes_on(unit, node, text):
            self._extend(unit, text)
            return node
        before = self._desk.body(node).text
        with self._history.action("edit", node) as action:
            words = self._words(node)
            step = self._step(node, text)
            if self._desk.tree[node].author == "model":
                action.run(self._desk, SetEntry(node, {"author": "model"}, {"author": "edited"}))
                step = self._step(node, text)
            action.run(self._desk, step)
            action.typed = self._words(node) - words
            action.became = node
        self._unit = _Unit(action.id, node, before, self._desk.tree.next_id, self._clock())
        return node

    def _step(self, node: NodeId, text: str) -> Respell:
        """The change from what ``node`` says now to ``text``."""
        desk = self._desk
        body, old = desk.body(node), desk.runs(node)
        runs, start = change(old, text, "writer", desk.token_sizes)
        same = len(text) - start
        limit = min(same, len(body.text) - start)
        tail = same_end(body.text, text, limit)
        return Respell(
            node=node,
            start=start,
            removed=body.text[start : len(body.text) - tail],
            inserted=text[start : len(text) - tail],
            runs_before=pack(body.runs),
            runs_after=pack(encode(runs, desk.tree[node].author)),
            mark=desk.tree.next_id,
        )

    def _words(self, node: NodeId) -> int:
        return self._desk.tree.count(node).words

    # -- one action for many keystrokes ------------------------------------------------------------

    def _goes_on(self, unit: _Unit, node: NodeId, text: str) -> bool:
        """Whether ``text`` is more of the same typing."""
        if unit.node != node or unit.action != self._history.head:
            return False
        if self._clock() - unit.last > PAUSE_SECONDS:
            return False
        if any(child >= unit.later for child in self._desk.tree.all_children(node)):
            return False  # what was begun below it since needs the words as they are now
        now = self._desk.body(node).text
        start = same_start(now, text)
        end = len(now) - same_end(now, text, min(len(now), len(text)) - start)
        first = same_start(unit.before, now)
        last = len(now) - same_end(unit.before, now, min(len(unit.before), len(now)) - first)
        if end < first or start > last:
            return False  # somewhere else
        typed = now[first:last]
        ended = typed.rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not text[start:].startswith(_ENDS)
        full = len(typed) > UNIT_CHARS and typed[-1:].isspace()
        return not ((ended or full) and len(text) > len(now))

    def _extend(self, unit: _Unit, text: str) -> None:
        desk, history = self._desk, self._history
        action = history.get(unit.action)
        assert action is not None  # it is the head of history
        with desk.change():
            words = self._words(unit.node)
            last = action.changes[-1]
            runs, _ = change(desk.runs(unit.node), text, "writer", desk.token_sizes)
            if isinstance(last, Respell):
                last.undo(desk)
                step = self._step(unit.node, text)
                step.mark = last.mark
                step.do(desk)
                action.changes[-1] = step
            else:
                desk.write(unit.node, runs)
            action.became = unit.node
            desk.put_value("current", unit.node)
            typed = self._words(unit.node) - words
            action.typed += typed
            desk.sitting.record(typed, 0, 0, action.at)
            history.save(action)
        unit.last = self._clock()
