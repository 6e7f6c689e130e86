"""The index of a story: the parent, order, length and marks of each node, without the texts.

The whole index is in memory, so it holds only numbers and short marks. :meth:`Tree.put` makes each change and
keeps the old entries until :meth:`Tree.settle` (saved) or :meth:`Tree.revert` (not saved). Nothing here knows
SQL or locks.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from srbwriter.story.model import ROOT, Author, Marks, NodeId, NoSuchNode, State
from srbwriter.story.words import Count, well_formed

BOOKMARK, CHAPTER, VISITED, SETTINGS = 1, 2, 4, 8


class Entry(NamedTuple):
    """The index entry of a node; ``place`` orders siblings, ``flags`` are the bits above."""

    id: NodeId
    parent: NodeId | None
    place: int
    state: int
    author: Author
    chars: int = 0
    words: int = 0
    edges: int = 0
    flags: int = 0
    rating: int = 0  # of versions before 0.6; not shown any more
    tags: str | None = None
    note: str | None = None
    title: str | None = None
    created: float = 0.0

    @property
    def marks(self) -> Marks:
        return Marks(
            bookmark=bool(self.flags & BOOKMARK),
            tags=tuple(self.tags.split("\n")) if self.tags else (),
            note=self.note or "",
            chapter=bool(self.flags & CHAPTER),
            title=self.title or "",
            visited=bool(self.flags & VISITED),
            deleted=self.state != State.LIVING,
        )

    def with_marks(self, marks: Marks) -> Entry:
        """Return this entry with ``marks``, except ``deleted``."""
        bits = (BOOKMARK, marks.bookmark), (CHAPTER, marks.chapter), (VISITED, marks.visited)
        flags = self.flags & SETTINGS | sum(bit for bit, there in bits if there)
        return self._replace(
            flags=flags,
            tags=well_formed("\n".join(marks.tags)) or None,
            note=well_formed(marks.note) or None,
            title=well_formed(marks.title) or None,
        )


class Tree:
    """Entries by node number, and the children of each node."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries = {entry.id: entry for entry in entries}
        self._children: dict[NodeId, list[NodeId]] = {}
        for entry in sorted(self._entries.values(), key=lambda e: (e.place, e.id)):
            if entry.parent is not None:
                self._children.setdefault(entry.parent, []).append(entry.id)
        self._before: dict[NodeId, Entry | None] = {}
        self.next_id = max(self._entries, default=0) + 1

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, node: NodeId) -> bool:
        return node in self._entries

    def __getitem__(self, node: NodeId) -> Entry:
        try:
            return self._entries[node]
        except KeyError:
            raise NoSuchNode(node) from None

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    # -- change ------------------------------------------------------------------------------------

    def put(self, entry: Entry) -> None:
        """Add or replace an entry."""
        old = self._entries.get(entry.id)
        self._before.setdefault(entry.id, old)
        self._place(old, entry)
        self.next_id = max(self.next_id, entry.id + 1)

    def set(self, node: NodeId, **fields: Any) -> None:
        """Change fields of an entry."""
        self.put(self[node]._replace(**fields))

    def _place(self, old: Entry | None, new: Entry | None) -> None:
        moved = old is None or new is None or (old.parent, old.place) != (new.parent, new.place)
        if moved and old is not None and old.parent is not None:
            siblings = self._children[old.parent]
            siblings.remove(old.id)
            if not siblings:
                del self._children[old.parent]
        if new is None:
            if old is not None:
                del self._entries[old.id]
            return
        self._entries[new.id] = new
        if moved and new.parent is not None:
            siblings = self._children.setdefault(new.parent, [])
            insort(siblings, new.id, key=lambda node: (self._entries[node].place, node))

    @property
    def changed(self) -> list[Entry]:
        """Entries put since the last settle or revert."""
        return [self._entries[node] for node in self._before if node in self._entries]

    def settle(self) -> None:
        self._before.clear()

    def revert(self) -> None:
        """Restore all entries as they were at the last settle."""
        for node, old in reversed(self._before.items()):
            self._place(self._entries.get(node), old)
        self._before.clear()
        self.next_id = max(self._entries, default=0) + 1

    # -- look --------------------------------------------------------------------------------------

    def parent(self, node: NodeId) -> NodeId | None:
        return self[node].parent

    def all_children(self, node: NodeId) -> list[NodeId]:
        """Return the children in order, in every state."""
        return list(self._children.get(self[node].id, ()))

    def children(self, node: NodeId) -> list[NodeId]:
        """Return the living children in order."""
        return [c for c in self._children.get(self[node].id, ()) if self._entries[c].state == State.LIVING]

    def path(self, node: NodeId) -> list[NodeId]:
        """Return the nodes from the root to ``node``."""
        return list(self.upward(node))[::-1]

    def upward(self, node: NodeId) -> Iterator[NodeId]:
        """Yield the nodes from ``node`` to the root."""
        here: NodeId | None = self[node].id
        while here is not None:
            yield here
            here = self._entries[here].parent

    def living(self, node: NodeId) -> bool:
        """Whether ``node`` and all its ancestors are part of the readable tree."""
        return node in self._entries and all(
            self._entries[above].state == State.LIVING for above in self.upward(node)
        )

    def memory_of_living(self) -> Callable[[NodeId], bool]:
        """:meth:`living` for many nodes of an unchanging tree: no node is looked at twice."""
        known = dict[NodeId, bool]()

        def living(node: NodeId) -> bool:
            walked: list[NodeId] = []
            answer = True
            for above in self.upward(node):
                if above in known:
                    answer = known[above]
                    break
                walked.append(above)
                if self._entries[above].state != State.LIVING:
                    answer = False
                    break
            known.update((above, answer) for above in walked)
            return answer

        return living

    def nearest_living(self, node: NodeId) -> NodeId:
        """Return ``node``, or its nearest ancestor in the readable tree."""
        path = self.path(node) if node in self._entries else [ROOT]
        if ROOT not in self._entries:  # a story that is just being made
            return ROOT
        for index, above in enumerate(path):
            if self._entries[above].state != State.LIVING:
                return path[index - 1]
        return path[-1]

    def reading_order(self, top: NodeId = ROOT, *, every: bool = False) -> Iterator[NodeId]:
        """Yield nodes depth first from ``top``, siblings in order; ``every`` includes those not living."""
        stack = [self[top].id]
        below = self.all_children if every else self.children
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(below(node)))

    def where(self, test: Callable[[Entry], bool]) -> list[NodeId]:
        """Return the living nodes that pass ``test``, in reading order."""
        found = [entry.id for entry in self if test(entry)]
        if len(found) < 2:
            return [node for node in found if self.living(node)]
        wanted = set(found)
        return [node for node in self.reading_order() if node in wanted]

    def binned(self) -> list[NodeId]:
        """The topmost nodes in the bin, newest first."""
        inside = {entry.id: entry.parent or ROOT for entry in self if entry.state == State.BINNED}
        tops = (node for node, parent in inside.items() if inside.keys().isdisjoint(self.upward(parent)))
        return sorted(tops, reverse=True)

    def count(self, node: NodeId) -> Count:
        """Count the words on the path from the root to ``node``."""
        entries = map(self._entries.__getitem__, self.path(node))
        return Count.total((entry.words, entry.edges) for entry in entries)

    def last_place(self, parent: NodeId | None) -> int:
        """Return a place after all children of ``parent``."""
        children = self._children.get(parent or 0)
        return self._entries[children[-1]].place + 1 if children else 0
