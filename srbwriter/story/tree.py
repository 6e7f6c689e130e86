"""The nodes of a story in memory, and how they are changed.

:meth:`Tree.set` is the one way to change a node. Inside :meth:`Tree.together` every old value is traced, so
that a verb that raises has changed nothing; of the trace :meth:`Tree.verb` makes the notes of an action, and
undo and redo put values back. When the outermost change ends, the rows that changed are handed over as one
batch. Nothing here knows a file.
"""

from __future__ import annotations

import time
from bisect import insort
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from srbwriter.story.edits import edit_between
from srbwriter.story.model import (
    ROOT,
    Author,
    JsonValue,
    NodeId,
    NoSuchNode,
    Progress,
    ReadOnly,
    ReadOnlyStory,
    Refused,
    Settings,
    State,
    TokenSizes,
)
from srbwriter.story.node import Node, packed, unpacked
from srbwriter.story.spans import Spans, cut
from srbwriter.story.words import Count

Rows = dict[tuple[str, Any], Any]
"""Rows of a story by (table, key): a Node, an Action, a Progress, or a value; None is a row that is gone."""

NOTED = frozenset(
    "made parent place state author text runs bookmark title note labels own_settings finish_reason".split()
)
"""The fields of a node that undo puts back; ``made`` is its state after undo."""

MOST_ACTIONS = 5000
"""Actions that can be undone; more are forgotten, the oldest first."""

IDLE_SECONDS = 300.0
"""A longer gap between two changes does not count as writing time (as in novelWriter)."""

Note = tuple[NodeId, str, Any, Any]
"""Node, field, old value, new value. Of a text, both are (place, the characters that differ)."""


@dataclass(slots=True)
class Action:
    """One undoable step: ``verb`` on ``node``.

    ``was`` and ``became`` are the current node before and after it; ``typed`` and ``picked`` are the words it
    added. Nodes from number ``later`` on were made after it. ``copies`` are (copy, node): a copy has the
    children of a node that follow its text as it is not now.
    """

    number: int
    verb: str
    node: NodeId
    at: float
    was: NodeId
    became: NodeId
    typed: int = 0
    picked: int = 0
    later: NodeId = 0
    notes: list[Note] = field(default_factory=list[Note])
    copies: list[tuple[NodeId, NodeId]] = field(default_factory=list[tuple[NodeId, NodeId]])

    def row(self) -> list[Any]:
        notes = [
            [node, name, packed(old), packed(new)] if name == "runs" else [node, name, old, new]
            for node, name, old, new in self.notes
        ]
        return [*(getattr(self, name) for name in _ACTION[:-2]), notes, self.copies]

    @classmethod
    def of(cls, row: list[Any]) -> Action:
        """The inverse of :meth:`row`."""
        action = cls(*row)
        action.notes = [
            (node, name, unpacked(old), unpacked(new)) if name == "runs" else (node, name, old, new)
            for node, name, old, new in action.notes
        ]
        return action


_ACTION = tuple(Action.__dataclass_fields__)


class Tree:
    """All nodes of a story, its values, its days and its actions. What is returned must not be changed."""

    clock: Callable[[], float] = staticmethod(time.time)

    def __init__(self) -> None:
        self.lock = RLock()
        self.read_only: ReadOnly | None = None
        self.token_sizes: TokenSizes | None = None
        self.changes: int = 0
        """How often the story has changed."""
        self._depth = 0
        self._trace: list[tuple[Any, Any, Any]] = []  # what changed, its field or key, the old value
        self._dirty: set[tuple[str, Any]] = set()
        self._action: Action | None = None
        self._take_in({})

    def _take_in(self, rows: Rows) -> None:
        """Fill the tree with what a file holds."""
        self._nodes: dict[NodeId, Node] = {}
        self._values: dict[str, JsonValue] = {}
        self._days: dict[str, Progress] = {}
        self._actions: dict[int, Action] = {}
        self._tables: dict[str, dict[Any, Any]] = {
            "node": self._nodes, "value": self._values, "day": self._days, "action": self._actions,
        }  # fmt: skip
        self._children: dict[NodeId, list[NodeId]] = {}
        same: dict[str, Any] = {}
        for (table, key), row in rows.items():
            self._tables[table][key] = row
        for node in self._nodes.values():
            node.sampling = same.setdefault(repr(node.sampling), node.sampling)
        for node in sorted(self._nodes.values(), key=lambda n: (n.place, n.id)):
            if node.parent is not None:
                self._children.setdefault(node.parent, []).append(node.id)
        self._next = max(self._nodes, default=0) + 1
        self._last_change = self.clock()
        if self._nodes and "current" not in self._values:  # then the newest node that was read is likeliest
            read = (n.id for n in self._nodes.values() if n.state == State.LIVING and n.visited)
            self._values["current"] = max(read, default=ROOT)
        if self._nodes:
            self._values["current"] = self.nearest_living(self.current)

    # -- change ------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Generator[None]:
        """Change the story inside as one batch; if that raises, nothing has changed. Raises ReadOnlyStory."""
        with self.lock:
            if self.read_only is not None:
                raise ReadOnlyStory(self.read_only)
            mark = len(self._trace)
            self._depth += 1
            try:
                yield
            except BaseException:
                self._revert(mark)
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._trace.clear()
            if not self._depth and self._dirty:
                self.changes += 1
                self._hand_over({key: self._row(*key) for key in self._dirty})
                self._dirty.clear()

    def _hand_over(self, rows: Rows) -> None:
        raise NotImplementedError

    def _revert(self, mark: int) -> None:
        while len(self._trace) > mark:
            what, name, old = self._trace.pop()
            if not isinstance(what, Node):
                what[name] = old
                if old is None:
                    del what[name]
            elif name == "made":
                self._unhang(what)
                del self._nodes[what.id]
            else:
                self._put_field(what, name, old)

    @contextmanager
    def verb(self, name: str, node: NodeId, *, again: bool = False) -> Generator[Action]:
        """Change the story inside as one action; ``became`` is the current node after it.

        A verb inside another is a part of it. With ``again`` the last action goes on.
        """
        with self.together():
            if self._action is not None:
                yield self._action
                return
            last, here, mark = self.last_action, self.current, len(self._trace)
            old = Action(last + 1, name, node, self.clock(), here, here)
            old = self._actions[last] if again else old
            action = self._action = replace(old)
            try:
                yield action
            finally:
                self._action = None
            action.notes, action.later = self._notes_since(mark, old.notes), self._next
            if again or action.notes or action.became != action.was:
                gone = action.number + 1
                while gone in self._actions:
                    self._store("action", gone, None)
                    gone += 1
                self._store("action", action.number, action)
                self._store("action", action.number - MOST_ACTIONS, None)
                self._store("value", "done", action.number)
            self._record(action.typed - old.typed, action.picked - old.picked, 0, action.at)
            self.put("current", self.nearest_living(action.became))

    def _notes_since(self, mark: int, notes: Iterable[Note]) -> list[Note]:
        """Return the notes of an action that had ``notes`` before the trace from ``mark`` on."""
        before: dict[tuple[NodeId, str], Any] = {}
        for what, name, old in reversed(self._trace[mark:]):  # the first change of a field says the old value
            if isinstance(what, Node) and name in NOTED:
                before[what.id, name] = old
        for number, name, old, new in notes:
            if name == "text":
                (at, removed), (_, inserted) = old, new
                now = before.get((number, name), self._nodes[number].text)
                old = now[:at] + removed + now[at + len(inserted) :]
            before[number, name] = old
        found: list[Note] = []
        for (number, name), old in before.items():
            new = getattr(self._nodes[number], name, int(State.LIVING))
            if name == "made":
                found.append((number, name, old, new))
            elif (number, "made") in before or old == new:
                continue
            elif name == "text":
                at, end, words = edit_between(old, str(new))
                found.append((number, name, (at, old[at:end]), (at, words)))
            else:
                found.append((number, name, old, new))
        return found

    def set(self, node: Node, **fields: Any) -> None:
        """Change fields of a node."""
        for name, value in fields.items():
            old = getattr(node, name)
            if old is value or old == value:
                continue
            self._trace.append((node, name, old))
            self._put_field(node, name, value)
            self._dirty.add(("node", node.id))

    def put_spans(self, node: Node, spans: Spans) -> None:
        """Set the text of a node."""
        self._trace += (node, "text", node.text), (node, "runs", node.runs)
        node.spans, node.counted = spans, None
        self._dirty.add(("node", node.id))

    def _put_field(self, node: Node, name: str, value: Any) -> None:
        moves = name in ("parent", "place")
        if moves:
            self._unhang(node)
        setattr(node, name, value)
        if moves:
            self._hang(node)
        elif name == "text":
            node.counted = None

    def _hang(self, node: Node) -> None:
        if node.parent is not None:
            siblings = self._children.setdefault(node.parent, [])
            insort(siblings, node.id, key=lambda number: (self._nodes[number].place, number))

    def _unhang(self, node: Node) -> None:
        if node.parent is not None:
            self._children[node.parent].remove(node.id)

    def add_node(
        self, parent: NodeId | None, spans: Spans, author: Author, *, place: int | None = None,
        undone: State = State.BINNED, **fields: Any,
    ) -> Node:  # fmt: skip
        """Add a node, after its siblings unless ``place`` is given; ``undone`` is its state after undo."""
        place = self.last_place(parent or 0) if place is None else place
        node = Node(self._next, parent, place, author=author, created=time.time(), **fields)
        node.spans = spans
        self._next += 1
        self._nodes[node.id] = node
        self._hang(node)
        self._trace.append((node, "made", int(undone)))
        self._dirty.add(("node", node.id))
        return node

    def split_node(self, node: Node, at: int) -> Node:
        """Move the text from ``at`` on, with all children, into a new child; return it."""
        self.check_unwritten(node)
        head, tail = cut(node.spans, at, self.token_sizes)
        children = self.all_children(node.id)
        rest = self.add_node(
            node.id, tail, node.author, undone=State.ABSORBED, model=node.model, sampling=node.sampling,
            seed=node.seed, visited=node.visited, meta=node.meta, finish_reason=node.finish_reason,
        )  # fmt: skip
        for child in children:
            self.set(self._nodes[child], parent=rest.id)
        self.set(node, finish_reason="")
        self.put_spans(node, head)
        return rest

    def put(self, key: str, value: JsonValue) -> None:
        """Set a story-wide value; None removes it."""
        if self._values.get(key) != value:
            self._store("value", key, value)

    def _store(self, table: str, key: Any, value: Any) -> None:
        rows = self._tables[table]
        if value is not None or key in rows:
            self._trace.append((rows, key, rows.get(key)))
            rows[key] = value
            if value is None:
                del rows[key]
            self._dirty.add((table, key))

    def _row(self, table: str, key: Any) -> Any:
        if table == "node":
            return copy(self._nodes[key]) if key in self._nodes else None
        return self._tables[table].get(key)

    def _rows(self) -> Rows:
        """Return all rows of the story."""
        with self.lock:
            return {
                (table, key): self._row(table, key) for table, rows in self._tables.items() for key in rows
            }

    def _record(self, typed: int, picked: int, generated: int, at: float | None = None) -> None:
        """Add words to the day of ``at`` (now), and the time since the last change to today."""
        now = self.clock()
        gap, self._last_change = now - self._last_change, now
        for day, more in (
            (day_of(now if at is None else at), Progress(typed, picked, generated)),
            (day_of(now), Progress(seconds=gap if 0 < gap <= IDLE_SECONDS else 0.0)),
        ):
            if more != Progress():
                self._store("day", day, self._days.get(day, Progress()) + more)

    # -- undo --------------------------------------------------------------------------------------

    def undo(self) -> Action | None:
        """Undo the last action and return it; None at the beginning."""
        return self._step(back=True)

    def redo(self) -> Action | None:
        """Redo the action that was undone last, and return it; None if there is none."""
        return self._step(back=False)

    def _step(self, back: bool) -> Action | None:
        with self.together():
            number = self.last_action + (not back)
            if (known := self._actions.get(number)) is None:
                return None
            here = self.current
            action = replace(known, became=here) if back else replace(known, was=here)
            action.copies = list(known.copies)
            changing = dict.fromkeys(node for node, name, _, _ in action.notes if name in ("text", "made"))
            late = [
                (node, self.text(node.id), node.spans, children)
                for node in map(self.node, changing)
                if (children := list(self._late(node.id, action.later)))
            ]
            for note in action.notes:
                self._put_back(note, back)
            for node, text, spans, children in late:
                self._keep_behind(action, list(changing), node, text, spans, children)
            for twin, node in action.copies:
                if self.text(twin) == self.text(node) and self._nodes[node].state != State.ABSORBED:
                    for child in self.all_children(twin):
                        self.set(self._nodes[child], parent=node)
                    self.set(self._nodes[twin], state=State.ABSORBED)
            self._store("action", number, action)
            self._store("value", "done", number - back)
            way = -1 if back else 1
            self._record(way * action.typed, way * action.picked, 0, action.at)
            self.put("current", self.nearest_living(action.was if back else action.became))
            return action

    def _put_back(self, note: Note, back: bool) -> None:
        number, name, old, new = note
        node = self._nodes[number]
        if name == "text":
            (start, there), (_, instead) = (new, old) if back else (old, new)
            if not node.text.startswith(there, start):
                raise Refused("the story does not hold any more what was done there")
            self.set(node, text=node.text[:start] + instead + node.text[start + len(there) :])
        else:
            self.set(node, **{"state" if name == "made" else name: old if back else new})

    def _late(self, node: NodeId, later: NodeId) -> Iterator[NodeId]:
        """Yield the children of a node that were added after an action, and what it made was undone."""
        for child in self._children.get(node, ()):
            if child >= later and (self._nodes[child].state != State.ABSORBED or self._children.get(child)):
                yield child

    def _keep_behind(
        self, action: Action, changed: list[NodeId], node: Node, text: str, spans: Spans, late: list[NodeId]
    ) -> None:
        """Let children of ``node`` that came after ``action`` follow the ``text`` that they did before it.

        They move to another of the nodes that changed, which has this text now, or to a copy of the node.
        """
        if self.text(node.id) == text and node.state != State.ABSORBED:
            return
        copies = [number for number, _ in action.copies]
        places = [self._nodes[place] for place in (*changed, *copies) if self.text(place) == text]
        home = min(places, key=lambda place: place.state == State.ABSORBED, default=None)
        if home is None:
            home = self.add_node(
                node.parent, spans, node.author, place=node.place, model=node.model, sampling=node.sampling,
                seed=node.seed, own_settings=node.own_settings,
            )  # fmt: skip
            self.set(home, state=State.ABSORBED)
            action.copies.append((home.id, node.id))
        if any(self._nodes[child].state == State.LIVING for child in late):
            self.set(home, state=State.LIVING)
        for child in late:
            self.set(self._nodes[child], parent=home.id)

    # -- look --------------------------------------------------------------------------------------

    @property
    def last_action(self) -> int:
        """The number of the last action that was done and not undone; 0 at the beginning."""
        return int(self._values.get("done") or 0)

    def last_place(self, parent: NodeId) -> int:
        """Return a place after all children of ``parent``."""
        siblings = self._children.get(parent)
        return self._nodes[siblings[-1]].place + 1 if siblings else 0

    def __len__(self) -> int:
        """Count all nodes, including the root and those in the bin."""
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    @property
    def current(self) -> NodeId:
        """The node at which the writer is."""
        return int(self._values.get("current") or ROOT)

    @property
    def streaming(self) -> list[NodeId]:
        """The branches that are being written."""
        return [node.id for node in self if node.streaming is not None]

    def node(self, node: NodeId) -> Node:
        """Return a node, also one in the bin. Raises NoSuchNode."""
        try:
            return self._nodes[node]
        except KeyError:
            raise NoSuchNode(node) from None

    def nodes(self, nodes: Iterable[NodeId]) -> list[Node]:
        return [self.node(node) for node in nodes]

    def parent(self, node: NodeId) -> NodeId | None:
        return self.node(node).parent

    def all_children(self, node: NodeId) -> list[NodeId]:
        """Return the children in order, in every state."""
        return list(self._children.get(node, ()))

    def children(self, node: NodeId) -> list[NodeId]:
        """Return the living children in order."""
        self.node(node)
        return [c for c in self._children.get(node, ()) if self._nodes[c].state == State.LIVING]

    def upward(self, node: NodeId) -> Iterator[Node]:
        """Yield the nodes from ``node`` to the root."""
        here: Node | None = self.node(node)
        while here is not None:
            yield here
            here = self._nodes[here.parent] if here.parent is not None else None

    def path(self, node: NodeId) -> list[NodeId]:
        """Return the nodes from the root to ``node``."""
        with self.lock:
            return [above.id for above in self.upward(node)][::-1]

    def is_living(self, node: NodeId) -> bool:
        """Whether ``node`` is part of the readable tree: neither it nor an ancestor is in the bin."""
        with self.lock:
            return node in self._nodes and all(n.state == State.LIVING for n in self.upward(node))

    def nearest_living(self, node: NodeId) -> NodeId:
        """Return ``node``, or its nearest ancestor in the readable tree."""
        found = None
        for above in self.upward(node if node in self._nodes else ROOT):
            if above.state != State.LIVING:
                found = None
            elif found is None:
                found = above.id
        return found or ROOT

    def text(self, node: NodeId, chars: int | None = None) -> str:
        """Return the text from the root to ``node``; with ``chars``, at least that many from its end."""
        with self.lock:
            texts: list[str] = []
            for above in self.upward(node):
                texts.append(above.text)
                if chars is not None and (chars := chars - len(above.text)) <= 0:
                    break
            return "".join(reversed(texts))

    def chars(self, node: NodeId | None = None) -> int:
        """Count the characters from the root to ``node`` (the current one)."""
        with self.lock:
            return sum(len(above.text) for above in self.upward(self.current if node is None else node))

    def words(self, node: NodeId) -> int:
        """Count the words from the root to ``node``."""
        with self.lock:
            return Count.total([n.count for n in self.upward(node)][::-1]).words

    def head(self, node: NodeId, at: int) -> Spans:
        """Return the spans of the first ``at`` characters of ``node``."""
        return cut(self.node(node).spans, at, self.token_sizes)[0]

    def own_settings(self, node: NodeId) -> Settings:
        """Return the settings on ``node`` itself."""
        return self.node(node).settings

    def settings(self, node: NodeId) -> Settings:
        """Return the settings in force at ``node``: its own over those of its ancestors."""
        total = Settings()
        for above in self.nodes(self.path(node)):
            if above.own_settings:
                total = above.settings.inherit(total)
        return total

    def reading_order(self, top: NodeId = ROOT) -> Iterator[NodeId]:
        """Return the living nodes of the subtree of ``top``, depth first."""
        with self.lock:
            found: list[NodeId] = []
            stack = [self.node(top).id]
            while stack:
                found.append(stack.pop())
                stack.extend(reversed(self.children(found[-1])))
            return iter(found)

    def bookmarks(self) -> list[NodeId]:
        return [node for node in self.reading_order() if self._nodes[node].bookmark]

    def unread(self) -> list[NodeId]:
        return [node for node in self.reading_order() if not self._nodes[node].visited]

    def bin(self) -> list[NodeId]:
        """Return the topmost nodes in the bin, newest first."""
        with self.lock:
            inside = {node.id for node in self._nodes.values() if node.state == State.BINNED}
            tops = [n for n in inside if not any(a.id in inside for a in self.upward(self.parent(n) or ROOT))]
            return sorted(tops, reverse=True)

    def value(self, key: str) -> object:
        """Return a story-wide value that an interface keeps under ``key``, or None."""
        return self._values.get(f"x-{key}")

    def local_value(self, key: str) -> object:
        """Return a value that belongs to this file alone, or None."""
        return self._values.get(f"local-{key}")

    def words_by_author(self, node: NodeId | None = None) -> dict[Author, int]:
        """Count words by author, on the path to ``node`` or in the whole living tree."""
        words: dict[Author, int] = {}
        for each in self.nodes(list(self.reading_order()) if node is None else self.path(node)):
            if found := each.count[0]:
                words[each.author] = words.get(each.author, 0) + found
        return words

    def days(self) -> dict[str, Progress]:
        """Return the progress by calendar day (ISO 8601), oldest first."""
        return dict(sorted(self._days.items()))

    def today(self) -> Progress:
        """Return the progress of this calendar day."""
        return self._days.get(day_of(self.clock()), Progress())

    # -- checks ------------------------------------------------------------------------------------

    def check_kept(self, node: NodeId) -> Node:
        """Return ``node``. Raises NoSuchNode if it is in the bin itself or a part of another node."""
        found = self.node(node)
        if found.state != State.LIVING:
            binned = found.state == State.BINNED
            raise NoSuchNode(node, "is in the bin" if binned else "is part of another node now")
        return found

    def check_living(self, node: NodeId) -> Node:
        """Return ``node``. Raises NoSuchNode if it is not part of the readable tree."""
        found = self.check_kept(node)
        if not self.is_living(node):
            raise NoSuchNode(node, "is below something in the bin")
        return found

    def check_unwritten(self, *nodes: Node) -> None:
        """Raise Refused while a model writes at the end of one of them."""
        for node in nodes:
            if node.streaming is not None:
                raise Refused(f"node {node.id} is still being written — stop it first")


def day_of(now: float) -> str:
    """Return the local calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))
