"""The nodes of a story in memory, and how they are changed.

:meth:`Tree.set` is the one way to change a node. Inside :meth:`Tree.verb` it notes the old value once, and
these notes are the action: undo and redo put values back. When the outermost :meth:`Tree.change` ends, the
rows that changed are handed over as one batch; if it raises, every value is put back, so that a verb that
fails has changed nothing. Nothing here knows a file.
"""

from __future__ import annotations

import json
import time
from bisect import insort
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from threading import RLock
from typing import Any, cast

import msgpack

from srbwriter.story.edits import edit_between
from srbwriter.story.line import Line
from srbwriter.story.model import (
    ROOT,
    Author,
    JsonValue,
    Marks,
    NodeId,
    NoSuchNode,
    Progress,
    ReadOnly,
    ReadOnlyStory,
    Refused,
    Settings,
    State,
    TokenSizes,
    settings_from,
)
from srbwriter.story.node import NO_RECIPE, Node, Recipe
from srbwriter.story.spans import Spans, cut, encode, text_of, tidy
from srbwriter.story.words import Count

Rows = dict[tuple[str, Any], "tuple[Any, ...] | None"]
"""Rows of tables by (table, key); None is a row that is gone."""

NOTED = frozenset("parent place state author text runs bookmark title note labels own_settings".split())
"""The fields of a node that undo puts back."""

MOST_ACTIONS = 5000
"""Actions that can be undone; more are forgotten, the oldest first."""

IDLE_SECONDS = 300.0
"""A longer gap between two changes does not count as writing time (as in novelWriter)."""


Note = tuple[NodeId, str, Any, Any]
"""Node, field, old value, new value. A text has (place, removed), and a list: what was inserted, the first
number of later nodes, and nodes that keep those of them that follow the text as it is not now. "split" and
"join" have a place, and a list: the node with the rest, one that keeps other children while the
two are joined, and the finish reason of the first while they are not."""


@dataclass(slots=True)
class Action:
    """One undoable step: ``verb`` on ``node``.

    ``was`` and ``became`` are the current node before and after it; ``typed`` and ``picked`` are the words it
    added.
    """

    number: int
    verb: str
    node: NodeId
    at: float
    was: NodeId
    became: NodeId
    typed: int = 0
    picked: int = 0
    notes: list[Note] = field(default_factory=list[Note])

    def row(self) -> tuple[Any, ...]:
        return self.number, cast("Any", msgpack).packb(astuple(self))

    @classmethod
    def of(cls, data: bytes) -> Action:
        """The inverse of :meth:`row`. Raises ValueError or TypeError for other bytes."""
        values = cast("Any", msgpack).unpackb(data, use_list=False)
        notes: list[Any] = [
            (*note[:3], list(note[3]) if note[1] in ("split", "join", "text") else note[3])
            for note in values[-1]
        ]
        return cls(*values[:-1], notes=notes)


class Tree:
    """All nodes of a story, its values, its days and its actions. What is returned must not be changed."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.read_only: ReadOnly | None = None
        self.token_sizes: TokenSizes | None = None
        self.changes: int = 0
        """How often the story has changed."""
        self._clock: Callable[[], float] = time.time
        self._forget()

    def _forget(self) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._children: dict[NodeId, list[NodeId]] = {}
        self._recipes: dict[int, Recipe] = {}
        self._values: dict[str, JsonValue] = {}
        self._days: dict[str, Progress] = {}
        self._actions: list[Action] = []
        self._done = 0  # the actions that are done and not undone
        self._live: dict[NodeId, tuple[NodeId, str]] = {}
        self._next = ROOT
        self._last_change = self._clock()
        self._depth = 0
        self._trace: list[tuple[Any, str, Any]] = []  # what a failing change puts back
        self._dirty: set[tuple[str, Any]] = set()
        self._line: Line | None = None  # the last one that was asked for
        self._action: Action | None = None
        self._olds: dict[tuple[NodeId, str], Any] | None = None
        self._last_olds: dict[tuple[NodeId, str], Any] = {}

    def _take_in(self, nodes: Iterable[Node]) -> None:
        """Fill the tree."""
        self._nodes = {node.id: node for node in nodes}
        for node in sorted(self._nodes.values(), key=lambda n: (n.place, n.id)):
            if node.parent is not None:
                self._children.setdefault(node.parent, []).append(node.id)
        self._next = max(self._nodes, default=0) + 1

    # -- change ------------------------------------------------------------------------------------

    @contextmanager
    def change(self) -> Generator[None]:
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

    together = change

    def _hand_over(self, rows: Rows) -> None:
        raise NotImplementedError

    def _revert(self, mark: int) -> None:
        while len(self._trace) > mark:
            what, name, old = self._trace.pop()
            if isinstance(what, Node):
                if name:
                    self._put(what, name, old)
                else:
                    self._unhang(what)
                    self._line = None
                    del self._nodes[what.id]
                    self._live.pop(what.id, None)
            elif what is self._values or what is self._days:
                what[name] = old
            else:
                self._actions, self._done = cast(tuple[list[Action], int], old)
        self._last_olds = {}

    @contextmanager
    def verb(self, name: str, node: NodeId, *, again: bool = False) -> Generator[Action]:
        """Change the story inside as one action; ``became`` is the current node after it.

        A verb inside another is a part of it. With ``again`` the last action goes on.
        """
        with self.change():
            if self._action is not None:
                yield self._action
                return
            number = self.last_action + 1
            here = self.current
            action = self._actions[-1] if again else Action(number, name, node, self._clock(), here, here)
            self._action, self._olds = action, self._last_olds if again else {}
            words = action.typed, action.picked
            try:
                yield action
            finally:
                olds, self._action, self._olds = self._olds, None, None
            self._keep_action(action, olds, again, words)

    def _keep_action(
        self, action: Action, olds: dict[tuple[NodeId, str], Any], again: bool, words: tuple[int, int]
    ) -> None:
        made = {node for node, name in olds if name == "state" and (node, "made") in olds}
        notes = [note for note in action.notes if note[1] in ("split", "join")]
        for (node, name), old in list(olds.items()):
            new = getattr(self._nodes[node], name, None)
            if name in ("made", "next") or (node in made and name != "state") or old == new:
                continue
            if name == "text":
                edit = edit_between(old, str(new))
                removed = edit.start, old[edit.start : edit.end]
                later = olds.setdefault((ROOT, "next"), self._next)
                notes.append((node, name, removed, [edit.text, later, 0, 0]))
            else:
                notes.append((node, name, old, new))
        action.notes, self._last_olds = notes, olds
        self._trace.append((None, "", (list(self._actions), self._done)))
        for gone in self._actions[self._done :]:
            self._dirty.add(("action", gone.number))
        del self._actions[self._done :]
        done = bool(notes) or action.became != action.was
        if again and not done:
            self._actions.pop()
        elif done and not again:
            self._actions.append(action)
            if len(self._actions) > MOST_ACTIONS:
                self._dirty.add(("action", self._actions.pop(0).number))
        self._done = len(self._actions)
        self._dirty |= {("action", action.number), ("value", "done")}
        self._record(action.typed - words[0], action.picked - words[1], 0, action.at)
        self.put("current", self.nearest_living(action.became))

    def set(self, node: Node, **fields: Any) -> None:
        """Change fields of a node."""
        for name, value in fields.items():
            old = getattr(node, name)
            if old is value or old == value:
                continue
            self._trace.append((node, name, old))
            if self._olds is not None and name in NOTED:
                self._olds.setdefault((node.id, name), old)
            self._put(node, name, value)
            self._dirty.add(("node", node.id))

    def _put(self, node: Node, name: str, value: Any) -> None:
        if name in ("parent", "place"):
            if self._line is not None and node.id in self._line.index:
                self._line = None
            self._unhang(node)
            setattr(node, name, value)
            self._hang(node)
            return
        if name == "text":
            node.counted = None
            if self._line is not None and (at := self._line.index.get(node.id)) is not None:
                self._line.resize(at, len(value) - len(node.text))
        elif name == "state" and self._line is not None and node.id in self._line.index:
            self._line = None
        setattr(node, name, value)

    def _hang(self, node: Node) -> None:
        if node.parent is not None:
            siblings = self._children.setdefault(node.parent, [])
            insort(siblings, node.id, key=lambda number: (self._nodes[number].place, number))

    def _unhang(self, node: Node) -> None:
        if node.parent is not None:
            siblings = self._children[node.parent]
            siblings.remove(node.id)
            if not siblings:
                del self._children[node.parent]

    def add_node(
        self, parent: NodeId | None, spans: Spans, author: Author, *, place: int | None = None,
        undone: State = State.BINNED, **fields: Any,
    ) -> Node:  # fmt: skip
        """Add a node, after its siblings unless ``place`` is given; ``undone`` is its state after undo."""
        place = self.last_place(parent or 0) if place is None else place
        text = text_of(spans)
        node = Node(
            self._next, parent, place, author=author, text=text, runs=encode(spans, author),
            created=time.time(), **fields,
        )  # fmt: skip
        self._next += 1
        self._nodes[node.id] = node
        self._hang(node)
        self._trace.append((node, "", None))
        self._dirty.add(("node", node.id))
        if self._olds is not None:
            self._olds[node.id, "state"] = int(undone)
            self._olds[node.id, "made"] = True
        return node

    def put_node(self, node: Node) -> None:
        """Add a node of an import, or put it in the place of the root."""
        if (old := self._nodes.get(node.id)) is not None:
            self._unhang(old)
        self._line = None
        self._nodes[node.id] = node
        self._hang(node)
        self._dirty.add(("node", node.id))

    def put_day(self, day: str, progress: Progress) -> None:
        """Set the progress of a day."""
        self._days[day] = progress
        self._dirty.add(("day", day))

    def put_spans(self, node: Node, spans: Spans) -> None:
        """Set the text of a node."""
        self.set(node, text=text_of(spans), runs=encode(spans, node.author))

    def put(self, key: str, value: JsonValue) -> None:
        """Set a story-wide value."""
        old = self._values.get(key)
        if old != value:
            self._trace.append((self._values, key, old))
            self._values[key] = value
            self._dirty.add(("value", key))

    def recipe(self, model: str, sampling: JsonValue) -> Recipe:
        """Return the recipe of a model and its sampling; a new pair gets a number."""
        if not model and not sampling:
            return NO_RECIPE
        known = next((r for r in self._recipes.values() if r.model == model and r.sampling == sampling), None)
        if known is None:
            known = Recipe(len(self._recipes) + 1, model, dict(sampling or {}))
            self._recipes[known.number] = known
            self._dirty.add(("recipe", known.number))
        return known

    def _row(self, table: str, key: Any) -> tuple[Any, ...] | None:
        if table == "node":
            return self._nodes[key].row() if key in self._nodes else None
        if table == "value":
            return key, json.dumps(self._done if key == "done" else self._values.get(key))
        if table == "day":
            return key, *astuple(self._days.get(key, Progress()))
        if table == "recipe":
            return key, self._recipes[key].model, json.dumps(dict(self._recipes[key].sampling))
        first = self._actions[0].number if self._actions else 0
        at = int(key) - first
        found = self._actions[at] if 0 <= at < len(self._actions) else None
        return found.row() if found is not None and found.number == key else None

    def _rows(self) -> Rows:
        """Return all rows of the story."""
        with self.lock:
            keys = [("node", node) for node in self._nodes]
            keys += [("value", key) for key in (*self._values, "done")]  # type: ignore[misc]
            keys += [("day", day) for day in self._days]  # type: ignore[misc]
            keys += [("recipe", number) for number in self._recipes]
            keys += [("action", action.number) for action in self._actions]
            return {key: self._row(*key) for key in keys}

    # -- parts of verbs ----------------------------------------------------------------------------

    def split_node(self, node: Node, at: int) -> Node:
        """Move the text from ``at`` on, with all children, into a new child; return it. Part of an action."""
        note: Note = (node.id, "split", at, [0, 0, ""])
        self._split(note)
        if self._action is not None:
            self._action.notes.append(note)
        return self._nodes[note[3][0]]

    def join_node(self, node: Node, rest: Node) -> None:
        """Add the text and the children of ``rest``, its child, to ``node``. Part of an action."""
        note: Note = (node.id, "join", len(node.text), [rest.id, 0, ""])
        self._join(note)
        if self._action is not None:
            self._action.notes.append(note)

    def _split(self, note: Note) -> None:
        """Split a node as a note says: at which place, into which rest, and what a join had put aside."""
        number, _, at, others = note
        node, (rest, aside, finish) = self._nodes[number], others
        olds, self._olds = self._olds, None
        head, tail = cut(node.spans, at, self.token_sizes)
        children = self.all_children(number)
        more: dict[str, Any] = {
            "recipe": node.recipe, "seed": node.seed, "visited": node.visited, "extra": node.extra,
        }  # fmt: skip
        below = self._nodes.get(rest) or self.add_node(number, (), node.author, **more)
        others[0] = below.id
        self.set(below, parent=number, state=State.LIVING, finish_reason=node.finish_reason)
        self.put_spans(below, tail)
        self.put_spans(node, head)
        self.set(node, finish_reason=finish)
        for child in children:
            if child != below.id:
                self.set(self._nodes[child], parent=below.id)
        self._unpark(node, aside)
        self._olds = olds

    def _join(self, note: Note) -> None:
        """Join a node and its rest; other children move to a sibling with the text that they follow."""
        number, _, _, others = note
        node, rest = self._nodes[number], self._nodes[others[0]]
        olds, self._olds = self._olds, None
        extra = [child for child in self.all_children(number) if child != rest.id]
        others[1] = self._park(node, extra, others[1])
        self.put_spans(node, tidy([*node.spans, *rest.spans]))
        others[2] = node.finish_reason
        self.set(node, finish_reason=rest.finish_reason)
        for child in self.all_children(rest.id):
            self.set(self._nodes[child], parent=number)
        self.put_spans(rest, ())
        self.set(rest, state=State.ABSORBED)
        self._olds = olds

    def _park(self, node: Node, children: Iterable[NodeId], aside: NodeId) -> NodeId:
        """Move ``children`` to a sibling with the text that they follow; return its number.

        ``aside`` is the sibling made for this before, or 0, which stays where no child needs one.
        """
        children = [c for c in children if self._nodes[c].state != State.ABSORBED or self.all_children(c)]
        if not children:
            return aside
        more: dict[str, Any] = {"recipe": node.recipe, "seed": node.seed, "own_settings": node.own_settings}
        copy = self._nodes.get(aside) or self.add_node(node.parent, (), node.author, place=node.place, **more)
        living = any(self._nodes[child].state == State.LIVING for child in children)
        self.put_spans(copy, node.spans)
        self.set(copy, parent=node.parent, state=State.LIVING if living else State.ABSORBED)
        for child in children:
            self.set(self._nodes[child], parent=copy.id)
        return copy.id

    def _unpark(self, node: Node, aside: NodeId) -> None:
        """Move back the children that :meth:`_park` moved away."""
        for child in self.all_children(aside):
            self.set(self._nodes[child], parent=node.id)
        if aside:
            self.set(self._nodes[aside], state=State.ABSORBED)

    def _part(self, note: Note, back: bool) -> None:
        """Before a text changes back or again: let what was written later stay with the text it follows."""
        node, (_, mark, *asides) = self._nodes[note[0]], note[3]
        late = [child for child in self.all_children(node.id) if child >= mark]
        here = 0 if back else 1
        note[3][2 + here] = self._park(node, late, asides[here])

    def _go_back(self, note: Note, back: bool) -> None:
        """Put back the old value of a note, or the new one again."""
        number, name, old, new = note
        node = self._nodes[number]
        if name == "text":
            (start, removed), (inserted, _, *asides) = old, new
            there, instead = (inserted, removed) if back else (removed, inserted)
            if not node.text.startswith(there, start):
                raise Refused("the story does not hold any more what was done there")
            self.set(node, text=node.text[:start] + instead + node.text[start + len(there) :])
            self._unpark(node, asides[1 if back else 0])
        elif name in ("split", "join"):
            (self._split if (name == "split") != back else self._join)(note)
        elif name == "state" and back and old == State.ABSORBED and self.children(number):
            pass  # what was written after it since then stays with it, as a branch
        else:
            self.set(node, **{name: old if back else new})

    def undo(self) -> Action | None:
        """Undo the last action and return it; None at the beginning."""
        return self._step(-1)

    def redo(self) -> Action | None:
        """Redo the action that was undone last, and return it; None if there is none."""
        return self._step(1)

    def _step(self, way: int) -> Action | None:
        with self.change():
            index = self._done - (way < 0)
            if not 0 <= index < len(self._actions):
                return None
            action = self._actions[index]
            if way < 0:
                action.became = self.current  # where redo returns to
            else:
                action.was = self.current
            for note in action.notes:
                if note[1] == "text":
                    self._part(note, way < 0)
            twins = [note for note in action.notes if note[1] == "state" and note[2] == State.ABSORBED]
            others = [note for note in action.notes if note not in twins]
            for note in twins + others if way > 0 else others[::-1] + twins:  # the deepest of them are first
                self._go_back(note, way < 0)
            self._trace.append((None, "", (list(self._actions), self._done)))
            self._done += way
            self._dirty |= {("value", "done"), ("action", action.number)}
            self._record(way * action.typed, way * action.picked, 0, action.at)
            self.put("current", self.nearest_living(action.became if way > 0 else action.was))
            self._last_olds = {}
            return action

    def _record(self, typed: int, picked: int, generated: int, at: float | None = None) -> None:
        """Add words to the day of ``at`` (now), and the time since the last change to today."""
        now = self._clock()
        gap, self._last_change = now - self._last_change, now
        for day, more in (
            (day_of(now if at is None else at), Progress(typed, picked, generated)),
            (day_of(now), Progress(seconds=gap if 0 < gap <= IDLE_SECONDS else 0.0)),
        ):
            old = self._days.get(day, Progress())
            if more != Progress():
                self._trace.append((self._days, day, old))
                self._days[day] = old + more
                self._dirty.add(("day", day))

    # -- look --------------------------------------------------------------------------------------

    @property
    def last_action(self) -> int:
        """The number of the last action that was done and not undone; 0 at the beginning."""
        return self._actions[self._done - 1].number if self._done else 0

    @property
    def next_number(self) -> NodeId:
        """The number of the next new node."""
        return self._next

    def leave_out(self, number: NodeId) -> None:
        """Give new nodes numbers beyond ``number``."""
        self._next = max(self._next, number + 1)

    @property
    def values(self) -> dict[str, JsonValue]:
        """All story-wide values, to be read."""
        return self._values

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
    def streaming(self) -> dict[NodeId, NodeId]:
        """The branches being written: the first node of each → the node that gets its text now."""
        return {name: node for name, (node, _) in self._live.items()}

    def node(self, node: NodeId) -> Node:
        """Return a node, also one in the bin. Raises NoSuchNode."""
        try:
            return self._nodes[node]
        except KeyError:
            raise NoSuchNode(node) from None

    def nodes(self, nodes: Iterable[NodeId]) -> list[Node]:
        return [self.node(node) for node in nodes]

    def marks(self, node: NodeId) -> Marks:
        return self.node(node).marks

    def parent(self, node: NodeId) -> NodeId | None:
        return self.node(node).parent

    def all_children(self, node: NodeId) -> list[NodeId]:
        """Return the children in order, in every state."""
        return list(self._children.get(node, ()))

    def children(self, node: NodeId) -> list[NodeId]:
        """Return the living children in order."""
        self.node(node)
        return [c for c in self._children.get(node, ()) if self._nodes[c].state == State.LIVING]

    def siblings(self, node: NodeId) -> list[NodeId]:
        """Return the living children of the parent, including ``node``."""
        return self.children(self.parent(node) or ROOT)

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

    def line(self, node: NodeId) -> Line:
        """Return the text from the root to ``node`` as a line of pieces, which follows its changes."""
        with self.lock:
            if self._line is None or node not in self._line.index or self._line.nodes[-1].id != node:
                self._line = Line([above for above in self.upward(node) if above.parent is not None][::-1])
            return self._line

    def _in_line(self, node: NodeId) -> bool:
        return self._line is not None and self._line.living and node in self._line.index

    def is_living(self, node: NodeId) -> bool:
        """Whether ``node`` is part of the readable tree: neither it nor an ancestor is in the bin."""
        if self._in_line(node):
            return True
        with self.lock:
            return node in self._nodes and all(n.state == State.LIVING for n in self.upward(node))

    def nearest_living(self, node: NodeId) -> NodeId:
        """Return ``node``, or its nearest ancestor in the readable tree."""
        if self._in_line(node):
            return node
        found = None
        for above in self.upward(node if node in self._nodes else ROOT):
            found = above.id if above.state == State.LIVING and found is None else found
            found = None if above.state != State.LIVING else found
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
            return self.line(self.current if node is None else node).length

    def words(self, node: NodeId) -> int:
        """Count the words from the root to ``node``."""
        with self.lock:
            return Count.total([n.count for n in self.upward(node)][::-1]).words

    def head(self, node: NodeId, at: int) -> Spans:
        """Return the spans of the first ``at`` characters of ``node``."""
        return cut(self.node(node).spans, at, self.token_sizes)[0]

    def own_settings(self, node: NodeId) -> Settings:
        """Return the settings on ``node`` itself."""
        return settings_from(self.node(node).own_settings)

    def settings(self, node: NodeId) -> Settings:
        """Return the settings in force at ``node``: its own over those of its ancestors."""
        total = Settings()
        for above in self.path(node):
            if text := self._nodes[above].own_settings:
                total = settings_from(text).inherit(total)
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

    def where(self, test: Callable[[Node], bool]) -> list[NodeId]:
        """Return the living nodes that pass ``test``, in reading order."""
        with self.lock:
            found = {node.id for node in self._nodes.values() if test(node)}
            return [node for node in self.reading_order() if node in found] if found else []

    def bookmarks(self) -> list[NodeId]:
        return self.where(lambda node: node.bookmark)

    def unread(self) -> list[NodeId]:
        return self.where(lambda node: not node.visited)

    def tags(self) -> list[str]:
        """Return all tags in use, sorted."""
        return sorted({tag for node in self if node.labels for tag in node.tags})

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
        return self._days.get(day_of(self._clock()), Progress())

    # -- checks ------------------------------------------------------------------------------------

    def check_kept(self, node: NodeId) -> Node:
        """Return ``node``. Raises NoSuchNode if it is in the bin itself or was joined to another node."""
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

    def check_parent(self, node: NodeId, verb: str) -> Node:
        """Return the parent of a living ``node``. Raises Refused for the root, which cannot be ``verb``."""
        parent = self.check_living(node).parent
        if parent is None:
            raise Refused(f"the root of the story cannot be {verb}")
        return self._nodes[parent]

    def check_unwritten(self, *nodes: Node) -> None:
        """Raise Refused while a model writes at the end of one of them."""
        for node in nodes:
            if node.streaming:
                raise Refused(f"node {node.id} is still being written — stop it first")


def day_of(now: float) -> str:
    """Return the local calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))


def picked_words(tree: Tree, was: NodeId, node: NodeId) -> int:
    """Return the number of the model's words that a move from ``was`` to ``node`` adds to the path.

    Words that a person typed among them were counted when they were typed.
    """
    before = {above.id for above in tree.upward(was)}
    fresh: list[Node] = []
    shared = node
    for above in tree.upward(node):
        shared = above.id
        if shared in before:
            break
        fresh.append(above)
    others = sum(n.count[0] for n in fresh if n.author not in ("model", "edited"))
    return max(0, tree.words(node) - tree.words(shared) - others)
