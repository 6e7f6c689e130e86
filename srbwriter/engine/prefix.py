"""Radix tree of evaluated token runs: which ids are in the cache, and which sequences hold them.

A node is a run of tokens whose cells every sequence in ``node.seqs`` shares. A sequence is a path
from the root to its tip. The tree only keeps account; what it says must be done to the cache
(``Merge``) is done by its owner. Pure Python, one thread; knows nothing of llama.cpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple


class Merge(NamedTuple):
    """Cells [start, end) of ``source`` hold what was just evaluated again; share them instead."""

    source: int
    start: int
    end: int


class Match(NamedTuple):
    """How far ids are resident: ``length`` of them, ending ``offset`` tokens into ``node``."""

    node: Node
    offset: int
    length: int


class Node:
    """A run of tokens. ``end`` is the position after its last token."""

    __slots__ = ("children", "end", "last_used", "logits", "parent", "seqs", "tips", "tokens")

    def __init__(self, parent: Node | None, tokens: list[int], end: int) -> None:
        self.parent = parent
        self.tokens = tokens
        self.end = end
        self.children: dict[int, Node] = {}
        self.seqs: set[int] = set()  # sequences that hold these cells
        self.tips: set[int] = set()  # of these, the ones that end here
        self.logits: Any = None  # logits after the last token, if stored
        self.last_used = 0

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)

    def ids(self) -> list[int]:
        """Tokens from the root to the end of this node."""
        runs: list[list[int]] = []
        node: Node | None = self
        while node is not None:
            runs.append(node.tokens)
            node = node.parent
        return [t for run in reversed(runs) for t in run]


SHARED = 0
"""The space of all requests that know nothing better."""
_EMPTY_SPACES = 64  # that nobody holds a sequence in any more


class PrefixTree:
    """Account of one cache within one namespace (model and adapters).

    Each space has a root of its own: what is evaluated in one is not found in another.
    """

    def __init__(self, logits_budget: int = 64) -> None:
        self._roots = {SHARED: Node(None, [], 0)}
        self.cells = 0  # sum of all runs: what the cache holds
        self.tip: dict[int, Node] = {}
        self._rows: OrderedDict[Node, None] = OrderedDict()  # nodes with stored logits, oldest first
        self._rows_budget = logits_budget
        self._clock = 0

    # ---- looking

    def root(self, space: int = SHARED) -> Node:
        """Where the sequences of a space begin."""
        if space not in self._roots:
            if len(self._roots) > _EMPTY_SPACES:
                self._roots = {s: root for s, root in self._roots.items() if root.seqs or s == SHARED}
            self._roots[space] = Node(None, [], 0)
        return self._roots[space]

    def match(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> Match:
        """Longest resident prefix of ``ids``, at most ``limit`` tokens of it."""
        end = len(ids) if limit is None else min(limit, len(ids))
        node, offset, position = self.root(space), 0, 0
        while position < end:
            child = node.children.get(ids[position])
            if child is None:
                break
            offset = common_prefix(child.tokens, ids, position, end)
            node, position = child, position + offset
            if offset < len(child.tokens):
                break
        return Match(node, offset, position)

    def anchored(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> Match:
        """Longest prefix at whose very end a sequence stops: all a recurrent memory can resume."""
        found = self.match(ids, limit, space)
        node: Node = found.node
        if found.offset < len(node.tokens) and node.parent is not None:
            node = node.parent
        while node.parent is not None and not node.tips:
            node = node.parent
        return Match(node, len(node.tokens), node.end)

    def logits_after(self, ids: Sequence[int], space: int = SHARED) -> Any:
        """Stored logits after exactly ``ids``, or None."""
        found = self.match(ids, None, space)
        if found.length != len(ids) or found.offset != len(found.node.tokens):
            return None
        if found.node.logits is not None:
            self._rows.move_to_end(found.node)
        return found.node.logits

    def nodes(self) -> Iterator[Node]:
        stack = [child for root in self._roots.values() for child in root.children.values()]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(node.children.values())

    # ---- growing

    def fork(self, seq: int, found: Match) -> int | None:
        """Make ``seq`` a new sequence that ends at a match; returns a sequence to share cells with.

        None means that the match is the root and there is nothing to share.
        """
        node = self.split(found.node, found.offset)
        source = next(iter(node.tips or node.seqs), None)
        self._place(seq, node)
        return source

    def advance(self, seqs: Sequence[int], tokens: Sequence[int]) -> list[Merge]:
        """``tokens`` were evaluated for ``seqs``, which all end at one tip.

        Where the tree already holds the same tokens the sequences move onto the older cells, and
        the merges to be done in the cache are returned.
        """
        node = self.tip[seqs[0]]
        alone = node.logits is None and node.parent is not None and not node.children
        if alone and len(tokens) == 1 == len(node.seqs):
            node.tokens.append(tokens[0])  # the usual step: one branch, one token, nothing beside it
            node.end += 1
            self.cells += 1
            return []
        merges: list[Merge] = []
        done = 0
        while done < len(tokens):
            child = node.children.get(tokens[done])
            if child is None:
                node = self._grow(node, seqs, tokens[done:] if done else tokens)
                break
            length = common_prefix(child.tokens, tokens, done, len(tokens))
            source = next(iter(child.seqs))
            start = node.end
            child = self.split(child, length)
            merges.append(Merge(source, start, child.end))
            self._move_down(seqs, node, child)
            node, done = child, done + length
        return merges

    def split(self, node: Node, offset: int) -> Node:
        """Cut ``node`` after ``offset`` tokens; returns the node that ends there."""
        if offset >= len(node.tokens):
            return node
        if offset == 0 and node.parent is not None:
            return node.parent
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.tokens[:offset], node.start + offset)
        upper.seqs = set(node.seqs)
        upper.last_used = node.last_used
        parent.children[upper.tokens[0]] = upper
        node.tokens = node.tokens[offset:]
        node.parent = upper
        upper.children[node.tokens[0]] = node
        return upper

    def store_logits(self, seq: int, row: Any) -> None:
        """Keep the logits after the tip of ``seq``, so that forking there evaluates nothing."""
        node = self.tip[seq]
        if node.parent is None:
            return
        node.logits = row
        self._rows[node] = None
        self._rows.move_to_end(node)
        while len(self._rows) > self._rows_budget:
            oldest, _ = self._rows.popitem(last=False)
            oldest.logits = None

    @property
    def stored_rows(self) -> int:
        return len(self._rows)

    # ---- shrinking

    def truncate(self, seq: int, end: int) -> None:
        """``seq`` now stops at position ``end``."""
        node = self.tip[seq]
        while node.start >= end and node.parent is not None:
            parent = node.parent
            self._leave(node, seq)
            parent.tips.add(seq)
            self.tip[seq] = node = parent
        if node.end > end:
            upper = self.split(node, end - node.start)
            self._leave(node, seq)
            upper.tips.add(seq)
            self.tip[seq] = upper

    def release(self, seq: int) -> None:
        """Forget ``seq``; runs that nobody else holds are gone."""
        node: Node | None = self.tip.pop(seq)
        node.tips.discard(seq)
        while node is not None:
            parent = node.parent
            self._leave(node, seq)
            node = parent

    def touch(self, seq: int) -> None:
        """Mark the path of ``seq`` as just used."""
        self._clock += 1
        node: Node | None = self.tip.get(seq)
        while node is not None:
            node.last_used = self._clock
            node = node.parent

    def clear(self) -> None:
        self._roots = {SHARED: Node(None, [], 0)}
        self.tip.clear()
        self._rows.clear()
        self.cells = 0

    # ---- parked sequences

    def redundant(self, seq: int) -> bool:
        """Another sequence holds every cell that ``seq`` holds."""
        node = self.tip[seq]
        return node.parent is None or len(node.seqs) > 1

    def idle_cells(self, idle: Iterable[int]) -> int:
        """Cells that only sequences of ``idle`` hold."""
        parked = set(idle)
        return sum(len(node.tokens) for node in self.nodes() if node.seqs <= parked)

    def oldest(self, parked: Iterable[int], spared: Iterable[Node] = ()) -> int | None:
        """The parked sequence whose tip was used longest ago; ``spared`` nodes come last."""
        keep = set(spared)
        return min(parked, key=lambda s: (self.tip[s] in keep, self.tip[s].last_used), default=None)

    # ---- inside

    def _grow(self, node: Node, seqs: Sequence[int], tokens: Sequence[int]) -> Node:
        """New tokens below ``node``, in place when nothing else depends on where it ends."""
        self.cells += len(tokens)
        alone = len(node.seqs) == len(seqs) and not node.children
        if alone and node.logits is None and node.parent is not None:
            node.tokens.extend(tokens)
            node.end += len(tokens)
            return node
        child = Node(node, list(tokens), node.end + len(tokens))
        child.last_used = node.last_used
        node.children[child.tokens[0]] = child
        self._move_down(seqs, node, child)
        return child

    def _move_down(self, seqs: Sequence[int], node: Node, child: Node) -> None:
        child.seqs.update(seqs)
        child.tips.update(seqs)
        node.tips.difference_update(seqs)
        for seq in seqs:
            self.tip[seq] = child

    def _place(self, seq: int, node: Node) -> None:
        self.tip[seq] = node
        node.tips.add(seq)
        self._clock += 1
        above: Node | None = node
        while above is not None:
            above.seqs.add(seq)
            above.last_used = self._clock
            above = above.parent

    def _leave(self, node: Node, seq: int) -> None:
        node.seqs.discard(seq)
        node.tips.discard(seq)
        if node.parent is None or node.seqs:
            return
        del node.parent.children[node.tokens[0]]
        self.cells -= len(node.tokens)
        node.logits = None
        self._rows.pop(node, None)


def common_prefix(run: Sequence[int], ids: Sequence[int], start: int, end: int) -> int:
    """How many tokens of ``run`` equal ``ids[start:end]`` from their beginnings."""
    length = min(len(run), end - start)
    if list(run[:length]) == list(ids[start : start + length]):  # whole runs mostly match
        return length
    for index in range(length):
        if run[index] != ids[start + index]:
            return index
    return length
