"""The nodes of a story in memory, and how they and their text are changed.

:meth:`Tree.set` is the one way to change a node. Inside :meth:`Tree.together` the rows that change are kept
as they were, so that a verb that raises has changed nothing. Inside :meth:`Tree.verb` the old values of
fields become the notes of an action, which undo and redo exchange with what is there. When the outermost
change ends, the rows that changed are handed over as one batch. Nothing here knows a file.

An edit within a node that a person wrote changes it in place. A text that a model wrote never changes: an
edit of it, or of several nodes, makes an edited node beside them, to which what followed moves. Text cut off
at the end of the story stays as it was, on a branch of its own. Keystrokes in one place, without a pause and
within one sentence, are one action.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import reduce
from itertools import accumulate, takewhile
from sys import intern
from threading import RLock
from typing import Any

from msgspec import Struct, convert
from msgspec.structs import fields, replace

from srbwriter.story.model import (
    ROOT,
    Author,
    JsonObject,
    JsonValue,
    NodeId,
    Progress,
    ReadOnly,
    Refused,
    Span,
    State,
    StoryError,
    StorySettings,
    TokenSizes,
)
from srbwriter.story.node import Node
from srbwriter.story.spans import Edit, Spans, apply_edits, edit_between, edited, encode, text_of
from srbwriter.story.words import Count, well_formed

Rows = dict[tuple[str, Any], Any]
"""Rows of a story by (table, key): a Node, an Action, a Progress, or a value; None is a row that is gone."""

MOST_ACTIONS = 5000
"""Actions that can be undone; more are forgotten, the oldest first."""

IDLE_SECONDS = 300.0
"""A longer gap between two changes does not count as writing time (as in novelWriter)."""

PAUSE_SECONDS = 2.0
"""A longer pause between keystrokes starts a new action."""

LONGEST = 32_000
"""Characters of a person's node, about: what is typed behind more begins a node of its own."""

_ENDS = (".", "!", "?", "\u2026", "\n", "\u3002")

_MADE = "place", "model", "sampling", "seed", "own_settings"
"""What a node takes over from one like it."""

_KEPT = "finish_reason", "bookmark", "title", "note", "tags", "meta"
"""What an edited node takes over, too."""

_TYPES: dict[str, Any] = {field.name: field.type for field in fields(Node)} | {"text": Edit}
"""Types of the values of notes, which JSON does not keep."""


class Action(Struct, array_like=True):
    """One undoable step: ``verb`` on ``node``. A row of the file has the fields in this order.

    Undo or redo goes to the node ``there`` and puts what the ``notes`` say: a node, a field and its value; of
    a text, the edit. Each then holds what undo or redo has replaced. ``words`` are those that it added. Nodes
    from number ``later`` on were made after it was done, undone or redone last.
    """

    verb: str
    node: NodeId
    at: float
    there: NodeId
    words: int = 0
    later: NodeId = 0
    notes: list[tuple[NodeId, str, JsonValue]] = []


class Tree:
    """All nodes of a story, its values, its days and its actions. What is returned must not be changed."""

    clock: Callable[[], float] = staticmethod(time.time)
    typing_clock: Callable[[], float] = staticmethod(time.monotonic)

    def __init__(self) -> None:
        self.lock = RLock()
        self.read_only: ReadOnly | None = None
        self.token_sizes: TokenSizes | None = None
        self.changes: int = 0
        """How often the story has changed."""
        self._changing = False
        self._old: Rows = {}  # rows before the change under way
        self._action: Action | None = None
        self._before: dict[tuple[NodeId, str], Any] = {}  # before the last action, by node and field
        self._first_made: NodeId = 0  # of the last action
        self._typing: tuple[int, int, float] | None = None  # its start and end in the text, and when

    def _take_in(self, rows: Rows) -> None:
        """Fill the tree with what a file holds."""
        self._tables: dict[str, dict[Any, Any]] = {"node": {}, "value": {}, "day": {}, "action": {}}
        self._children: dict[NodeId | None, list[NodeId]] = {}
        for (table, key), row in rows.items():
            self._put_row(table, key, row)
        self._nodes: dict[NodeId, Node] = self._tables["node"]
        self._values: dict[str, JsonValue] = self._tables["value"]
        self._days: dict[str, Progress] = self._tables["day"]
        self._actions: dict[int, Action] = self._tables["action"]
        same: dict[str, Any] = {}
        for node in self._nodes.values():
            node.model = intern(node.model)
            node.sampling = same.setdefault(repr(node.sampling), node.sampling)
        self._next = max(self._nodes) + 1
        self._last_change = self.clock()
        # The newest node that was read is likeliest.
        self._values.setdefault("current", max(node.id for node in self._nodes.values() if node.visited))
        self._values["current"] = self.nearest_living(self.current)

    # -- change ------------------------------------------------------------------------------------

    @contextmanager
    def together(self) -> Generator[None]:
        """Change the story inside as one batch; if that raises, nothing has changed.

        Raises StoryError if the story is read-only.
        """
        with self.lock:
            if self.read_only is not None:
                raise StoryError(self.read_only.message)
            if self._changing:
                yield
                return
            self._changing, self._old = True, {}
            try:
                yield
            except BaseException:
                for (table, key), row in self._old.items():
                    self._put_row(table, key, row)
                self.end_typing()
                raise
            finally:
                self._changing, self._action = False, None
            if self._old:
                self.changes += 1
                self._hand_over({(table, key): self._tables[table].get(key) for table, key in self._old})

    def _hand_over(self, rows: Rows) -> None:
        raise NotImplementedError

    @contextmanager
    def verb(self, name: str, node: NodeId, *, again: bool = False) -> Generator[Action]:
        """Change the story inside as one action. A verb inside another is a part of it.

        With ``again`` the last action continues.
        """
        with self.together():
            if self._action is not None:
                yield self._action
                return
            number, here = self.last_action + (not again), self.current
            if not again:
                self._before, self._first_made = {}, self._next
                self.end_typing()
            old = self._actions[number] if again else Action(name, node, self.clock(), here)
            action = self._action = copy(old)
            yield action
            self._action = None
            action.later = self._next
            action.notes = [
                (number, field, edit_between(new, old) if field == "text" else old)
                for (number, field), old in self._before.items()
                if (new := getattr(self._nodes[number], field)) != old
            ]
            self.put("current", self.nearest_living(self.current))
            changed = bool(action.notes) or self.current != action.there
            self._before = self._before if changed else {}
            if again or changed:
                for gone in (number - MOST_ACTIONS, *range(number + 1, max(self._actions, default=0) + 1)):
                    self._store("action", gone, None)
                self._store("action", number, action if changed else None)
                self.put("done", number if changed else number - 1)
            self._record(action.words - old.words, action.at)

    def set(self, node: Node, **fields: Any) -> None:
        """Change fields of a node: it is another object then."""
        old = self._nodes[node.id]
        if self._action is not None and node.id < self._first_made:
            for name in fields:
                if name != "visited":  # what was read stays read
                    self._before.setdefault((node.id, name), getattr(old, name))
        self._store("node", node.id, replace(old, **fields))

    def put_spans(self, node: Node, spans: Spans) -> None:
        """Set the text of a node."""
        self.set(node, text=text_of(spans), runs=encode(spans, node.author))

    def put(self, key: str, value: JsonValue) -> None:
        """Set a story-wide value; None removes it."""
        self._store("value", key, value)

    def _store(self, table: str, key: Any, row: Any) -> None:
        old = self._tables[table].get(key)
        if old != row:
            self._old.setdefault((table, key), old)
            self._put_row(table, key, row)

    def _put_row(self, table: str, key: Any, row: Any) -> None:
        rows = self._tables[table]
        if table == "node":
            if (old := rows.get(key)) is not None:
                self._children[old.parent].remove(key)
            if row is not None:
                self._children.setdefault(row.parent, []).append(key)
        rows[key] = row
        if row is None:
            del rows[key]

    def _rows(self) -> Rows:
        """Return all rows of the story."""
        with self.lock:
            return {(table, key): row for table, rows in self._tables.items() for key, row in rows.items()}

    def add_node(
        self, parent: NodeId | None, spans: Spans, author: Author, *, like: Node | None = None,
        undone: State = State.BINNED, **fields: Any,
    ) -> Node:  # fmt: skip
        """Add a node that was made as ``like`` was and has its place, or is the last of its siblings.

        ``undone`` is its state while the action is undone.
        """
        made: JsonObject = {name: getattr(like, name) for name in _MADE} if like else {}
        last = max((self._nodes[n].place for n in self._children.get(parent, ())), default=-1)
        fields = {"place": last + 1} | made | fields
        node = Node(self._next, parent, author=author, created=time.time(), **fields)
        node.spans = spans
        self._next += 1
        self._store("node", node.id, node)
        if self._action is not None:
            self._before[node.id, "state"] = undone
        return node

    def _record(self, words: int, at: float) -> None:
        """Add words to the day of ``at``, and the time since the last change to today."""
        now = self.clock()
        gap, self._last_change = now - self._last_change, now
        seconds = gap if 0 < gap <= IDLE_SECONDS else 0.0
        for day, more, time_more in ((day_of(at), words, 0.0), (day_of(now), 0, seconds)):
            if more or time_more:
                old = self._days.get(day, Progress())
                self._store("day", day, Progress(old.words + more, old.seconds + time_more))

    # -- undo --------------------------------------------------------------------------------------

    def undo(self) -> Action | None:
        """Undo the last action and return it; None at the beginning."""
        return self._step(back=True)

    def redo(self) -> Action | None:
        """Redo the action that was undone last, and return it; None if there is none."""
        return self._step(back=False)

    def _step(self, back: bool) -> Action | None:
        with self.together():
            which, here = self.last_action + (not back), self.current
            if (known := self._actions.get(which)) is None:
                return None
            self.end_typing()
            action = replace(known, there=here, notes=[])
            for number, name, note in known.notes:
                node, value = self._nodes[number], convert(note, _TYPES[name])
                old = getattr(node, name)
                if name == "text":
                    self._keep_behind(action, node)
                    start, end, words = value
                    old, value = Edit(start, start + len(words), old[start:end]), apply_edits(old, [value])
                self.set(node, **{name: value})
                action.notes.append((number, name, old))
            for number, *_ in known.notes:  # what branches begun since follow stays readable
                late = any(child >= known.later for child in self.children(number))
                if late and self._nodes[number].state == State.ABSORBED:
                    for above in self.line(number):
                        self.set(above, state=State.LIVING)
            action.later = self._next
            self._store("action", which, action)
            self.put("done", which - back)
            self.put("current", self.nearest_living(known.there))
            self._record(-action.words if back else action.words, action.at)
            return action

    def _keep_behind(self, action: Action, node: Node) -> None:
        """Move branches begun below a node since its text changed to a copy of it, which keeps that text."""
        below = self.nodes(self.all_children(node.id))
        late = [child for child in below if child.id >= action.later and child.state != State.ABSORBED]
        if late:
            state = min(child.state for child in late)
            copied = self.add_node(node.parent, node.spans, node.author, like=node, state=state)
            action.notes.append((copied.id, "state", State.ABSORBED))
            for child in late:
                self.set(child, parent=copied.id)
                action.notes.append((child.id, "parent", node.id))

    # -- text -----------------------------------------------------------------------------------------

    def end_typing(self) -> None:
        """Let the next keystroke start an action of its own."""
        self._typing = None

    def replace(self, *edits: Edit) -> NodeId:
        """Apply ``edits`` to the text from the root to the end of the current node, as one action.

        The edits are in order and disjoint, and their places are those of the text before all of them.
        Returns the node at which the text ends now, which becomes the current one. Raises Refused for an edit
        that is not within the text.
        """
        with self.together():
            parts, text, at = list[Edit](), self.text(self.current), 0
            for start, at, words in edits:
                first, end, words = edit_between(text[start:at], well_formed(words))
                if first < end or words:
                    parts.append(Edit(start + first, start + end, words))
            if parts and len(edits) > 1:
                self._change("edit", parts)
            elif parts:
                start, end, words = parts[0]
                self._change("edit", parts, again=self._goes_on(parts[0], text))
                first, last, _ = self._typing or (start, end, 0.0)
                last = max(last, end) + len(words) - (end - start)
                self._typing = min(first, start), last, self.typing_clock()
            return self.current

    def append(self, text: str) -> NodeId:
        """Type ``text`` at the end of the current node; return the node that holds it.

        That is the current node itself if a person wrote it and nothing follows it, else a new child.
        """
        with self.together():
            end = self.chars(self.current)
            return self.replace(Edit(end, end, text))

    def rewrite(self, start: int, end: int, spans: Sequence[Span]) -> None:
        """Replace characters ``start`` to ``end`` of the current text by ``spans``, which a model wrote.

        One action; an empty passage is a place. Raises Refused for one that is not within the text.
        """
        with self.together():
            self._change("rewrite", [Edit(start, end, text_of(spans))], tuple(spans))

    def _goes_on(self, edit: Edit, text: str) -> bool:
        """Whether ``edit`` of ``text`` is a part of the last action."""
        if not self._before or self._typing is None or self.typing_clock() - self._typing[2] > PAUSE_SECONDS:
            return False
        start, end, _ = self._typing
        ended = text[start:end].rstrip(" \"'\u201d\u2019").endswith(_ENDS) and not edit.text.startswith(_ENDS)
        adjacent = start <= edit.end and edit.start <= end
        return adjacent and (not ended or len(edit.text) <= edit.end - edit.start)

    def _change(self, verb: str, edits: Sequence[Edit], inserted: Spans = (), *, again: bool = False) -> None:
        """Change the text by ``edits``, which insert words of the writer, or ``inserted`` by a model.

        With ``again`` they are a part of the last action, if they change one node.
        """
        line = self.line(self.current)[1:]
        starts = [*accumulate((len(node.text) for node in line), initial=0)]
        groups = list[tuple[int, int, list[Edit]]]()  # the first and the last node, and edits of them
        done = 0
        for edit in edits:
            if not done <= edit.start <= edit.end <= starts[-1]:
                raise Refused(f"{edit.start} to {edit.end} is no place for an edit of this text")
            low, high = self._touched(line, starts, edit)
            self.check_unwritten(*line[low : high + 1] or line[-1:])
            own, done = list[Edit](), edit.end
            if groups and low <= groups[-1][1]:
                low, _, own = groups.pop()
            own.append(edit)
            groups.append((low, high, own))
        single = groups[0][0] == groups[0][1]
        with self.verb(verb, self.current, again=again and single) as action:
            words, replaced = self.words(self.current), set[NodeId]()
            for low, high, own in reversed(groups):  # deepest first
                nodes, begin = line[low : high + 1], starts[low]
                own = [Edit(edit.start - begin, edit.end - begin, edit.text) for edit in own]
                spans = [span for node in nodes for span in node.spans]
                spans = edited(spans, own, self.token_sizes, inserted)
                is_cut = high == len(line) - 1 and edits[-1].end == starts[-1]
                if not nodes:
                    above = line[-1].id if line else ROOT
                    line.append(self.add_node(above, spans, "edited" if inserted else "writer"))
                elif low == high and nodes[0].author != "model":
                    self.put_spans(nodes[0], spans)
                elif is_cut and not spans:
                    del line[low:]  # it stays as it is, on a branch of its own
                else:
                    line[low : high + 1] = [made] = [self._add_edited(nodes, spans)]
                    # What follows moves along, but not from an end that is cut off, or that end itself.
                    for child in [] if is_cut else self.all_children(nodes[-1].id):
                        if child not in replaced:
                            self.set(self._nodes[child], parent=made.id)
                    replaced.add(nodes[0].id)
            self.put("current", line[-1].id if line else ROOT)
            action.words += self.words(self.current) - words

    def _add_edited(self, nodes: Sequence[Node], spans: Spans) -> Node:
        """Add a node beside the first of ``nodes``, in the place of all; a text takes its marks along."""
        first = nodes[0]
        author: Author = "writer" if all(node.author == "writer" for node in nodes) else "edited"
        kept = {name: getattr(first, name) for name in _KEPT if spans}
        made = self.add_node(first.parent, spans, author, like=first, undone=State.ABSORBED, **kept)
        if spans:
            self.set(first, bookmark=False, title="", note="", tags=())
        return made

    def _touched(self, line: Sequence[Node], starts: Sequence[int], edit: Edit) -> tuple[int, int]:
        """Return the first and the last of the nodes, which begin at ``starts``, that an edit changes.

        Words at the end go into the last node if a person wrote it and nothing follows it, else into a new
        one. An insertion between nodes goes into the first that a person wrote, or into the last that no
        model is writing, since text can only be added at the end of that one.
        """
        if edit.start < edit.end:
            return bisect_right(starts, edit.start) - 1, bisect_left(starts, edit.end) - 1
        if edit.start == starts[-1]:
            followed = any(n.state != State.ABSORBED for n in self.nodes(self.all_children(self.current)))
            own = bool(line) and line[-1].author in ("writer", "edited") and len(line[-1].text) < LONGEST
            if followed or not own:
                return len(line), len(line)
        there = range(bisect_left(starts, edit.start, 1) - 1, bisect_right(starts, edit.start, 0, len(line)))
        ended = next((n for n in reversed(there) if line[n].streaming is None), there[-1])
        place = next((n for n in there if line[n].author != "model"), ended)
        return place, place

    # -- look --------------------------------------------------------------------------------------

    @property
    def last_action(self) -> int:
        """The number of the last action that was done and not undone; 0 at the beginning."""
        return int(self._values.get("done") or 0)

    def __len__(self) -> int:
        """Count all nodes, including the root and those in the bin."""
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    @property
    def current(self) -> NodeId:
        """The node at which the writer is."""
        return self._values["current"]

    def node(self, node: NodeId) -> Node:
        """Return a node, also one in the bin. Raises Refused."""
        if (found := self._nodes.get(node)) is None:
            raise Refused(f"node {node} is not in this story")
        return found

    def nodes(self, nodes: Iterable[NodeId]) -> list[Node]:
        return [self.node(node) for node in nodes]

    def all_children(self, node: NodeId) -> list[NodeId]:
        """Return the children in order, in every state."""
        return sorted(self._children.get(node, ()), key=lambda child: (self._nodes[child].place, child))

    def children(self, node: NodeId) -> list[NodeId]:
        """Return the living children in order."""
        self.node(node)
        with self.lock:
            return [child for child in self.all_children(node) if self._nodes[child].state == State.LIVING]

    def line(self, node: NodeId) -> list[Node]:
        """Return the nodes from the root to ``node``."""
        with self.lock:
            line = [self.node(node)]
            while (parent := line[-1].parent) is not None:
                line.append(self._nodes[parent])
            return line[::-1]

    def path(self, node: NodeId) -> list[NodeId]:
        """Return the numbers of the nodes from the root to ``node``."""
        return [above.id for above in self.line(node)]

    def is_living(self, node: NodeId) -> bool:
        """Whether ``node`` is part of the readable tree: neither it nor an ancestor is in the bin."""
        return node in self._nodes and all(above.state == State.LIVING for above in self.line(node))

    def nearest_living(self, node: NodeId) -> NodeId:
        """Return ``node``, or its nearest ancestor in the readable tree."""
        line = self.line(node if node in self._nodes else ROOT)
        return [above.id for above in takewhile(lambda above: above.state == State.LIVING, line)][-1]

    def text(self, node: NodeId) -> str:
        """Return the text from the root to ``node``."""
        with self.lock:
            return "".join([above.text for above in self.line(node)])

    def chars(self, node: NodeId) -> int:
        """Count the characters from the root to ``node``."""
        return sum(len(above.text) for above in self.line(node))

    def words(self, node: NodeId) -> int:
        """Count the words from the root to ``node``."""
        return Count.total(above.count for above in self.line(node)).words

    def settings(self, node: NodeId) -> StorySettings:
        """Return the settings in force at ``node``: its own over those of its ancestors."""
        own = (above.settings for above in self.line(node) if above.own_settings)
        return reduce(lambda total, nearer: nearer.inherit(total), own, StorySettings())

    def reading_order(self, top: NodeId = ROOT) -> list[NodeId]:
        """Return the living nodes of the subtree of ``top``, depth first."""
        with self.lock:
            found, stack = list[NodeId](), [self.node(top).id]
            while stack:
                found.append(stack.pop())
                stack += reversed(self.children(found[-1]))
            return found

    def bin(self) -> list[NodeId]:
        """Return the topmost nodes in the bin, newest first."""
        with self.lock:
            inside = {node.id for node in self._nodes.values() if node.state == State.BINNED}
            return sorted((n for n in inside if inside.isdisjoint(self.path(n)[:-1])), reverse=True)

    def value(self, key: str, *, local: bool = False) -> object:
        """Return a value that an interface keeps under ``key``, or None."""
        return self._values.get(f"local-{key}" if local else f"x-{key}")

    def days(self) -> dict[str, Progress]:
        """Return the progress by calendar day (ISO 8601), oldest first."""
        return dict(sorted(self._days.items()))

    def today(self) -> Progress:
        """Return the progress of this calendar day."""
        return self._days.get(day_of(self.clock()), Progress())

    # -- checks ------------------------------------------------------------------------------------

    def check_living(self, node: NodeId, *, below_bin: bool = False) -> Node:
        """Return ``node``. Raises Refused if it or, without ``below_bin``, an ancestor is in the bin."""
        found = self.node(node)
        if found.state != State.LIVING or not (below_bin or self.is_living(node)):
            raise Refused(f"node {node} is in the bin")
        return found

    def check_unwritten(self, *nodes: Node) -> None:
        """Raise Refused while a model writes at the end of one of them."""
        for node in nodes:
            if node.streaming is not None:
                raise Refused(f"node {node.id} is still being written — stop it first")


def day_of(now: float) -> str:
    """Return the local calendar day, ISO 8601."""
    return time.strftime("%Y-%m-%d", time.localtime(now))
