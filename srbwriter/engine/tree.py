"""Radix tree of evaluated token runs: which ids are kept, and in which tier.

A node is a run of tokens. It is resident while sequences hold its cells (``node.seqs``), and stored while
its state lies outside them (``node.piece``); it can be both, and is forgotten when it is neither. What is
resident hangs below what is resident, so that a sequence is a path from the root to its tip; what is only
stored hangs below that. The tree only keeps account; what it says must be done to the cache (``Merge``) is
done by its owner. Pure Python, one thread; knows nothing of llama.cpp.
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
    """How far ids are kept: ``length`` of them, ending ``offset`` tokens into ``node``.

    The first ``resident`` of them are in cells, the others stored.
    """

    node: Node
    offset: int
    length: int
    resident: int


class Grown(NamedTuple):
    """What the tree made of tokens that were evaluated: ``known`` of them it held already, in some tier."""

    merges: list[Merge]
    known: int


class Piece:
    """The state of the tokens at positions [start, end) of one path, outside the cells.

    ``users`` are the nodes it belongs to: a node that is cut in two leaves it to both.
    """

    __slots__ = ("data", "end", "file", "size", "start", "users")

    def __init__(self, start: int, end: int, data: Any, size: int, file: Any = None) -> None:
        self.start, self.end = start, end
        self.data = data  # in host memory, or None
        self.file = file  # on disk, or None
        self.size = size  # bytes
        self.users = 0


class Node:
    """A run of tokens. ``end`` is the position after its last token."""

    __slots__ = ("children", "end", "last_used", "logits", "parent", "piece", "seqs", "tips", "tokens")

    def __init__(self, parent: Node | None, tokens: list[int], end: int) -> None:
        self.parent = parent
        self.tokens = tokens
        self.end = end
        self.children: dict[int, Node] = {}
        self.seqs: set[int] = set()  # sequences that hold these cells
        self.tips: set[int] = set()  # of these, the ones that end here
        self.piece: Piece | None = None  # of a stored node
        self.logits: Any = None  # logits after the last token, if stored
        self.last_used = 0

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)

    def upward(self) -> Iterator[Node]:
        """This node and those above it but the root; each may be cut in two once it has been given."""
        node = self
        while (above := node.parent) is not None:
            yield node
            node = above

    def ids(self) -> list[int]:
        """Tokens from the root to the end of this node."""
        return [t for node in reversed(list(self.upward())) for t in node.tokens]


SHARED = 0
"""The space of all requests that know nothing better."""
_EMPTY_SPACES = 64  # that nobody holds a sequence in any more


class TokenTree:
    """Account of one cache within one namespace (model and adapters).

    Each space has a root of its own: what is evaluated in one is not found in another.
    """

    def __init__(self, logits_budget: int = 64, cuttable: bool = True) -> None:
        self._cuttable = cuttable  # a state is that of its tokens, and not of all tokens up to its end
        self._roots = {SHARED: Node(None, [], 0)}
        self.cells = 0  # sum of the resident runs: what the cache holds
        self.stored_bytes = 0  # of the pieces in host memory
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

    def root_of(self, node: Node) -> Node:
        """Where the path to ``node`` begins."""
        while node.parent is not None:
            node = node.parent
        return node

    def match(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> Match:
        """Longest prefix of ``ids`` that is kept, at most ``limit`` tokens of it."""
        end = len(ids) if limit is None else min(limit, len(ids))
        node, offset, position, resident = self.root(space), 0, 0, 0
        while position < end:
            child = node.children.get(ids[position])
            if child is None:
                break
            offset = common_prefix(child.tokens, ids, position, end)
            node, position = child, position + offset
            if child.seqs:
                resident = position
            if offset < len(child.tokens):
                break
        return Match(node, offset, position, resident)

    def anchored(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> Match:
        """Longest prefix at whose very end a sequence stops or a state was stored.

        That is all that a recurrent memory can resume.
        """
        found = self.match(ids, limit, space)
        node: Node = found.node
        if found.offset < len(node.tokens) and node.parent is not None:
            node = node.parent
        while node.parent is not None and not node.tips and node.piece is None:
            node = node.parent
        return Match(node, len(node.tokens), node.end, node.end if node.tips else 0)

    def furthest(self, seq: int, tokens: Sequence[int]) -> Node:
        """The last node on the way of ``tokens`` from the tip of ``seq`` at which a sequence stops."""
        node = found = self.tip[seq]
        done = 0
        while done < len(tokens):
            child = node.children.get(tokens[done])
            if child is None or common_prefix(child.tokens, tokens, done, len(tokens)) < len(child.tokens):
                break
            node, done = child, done + len(child.tokens)
            found = node if node.tips else found
        return found

    def logits_after(self, ids: Sequence[int], space: int = SHARED) -> Any:
        """Stored logits after exactly ``ids``, or None."""
        found = self.match(ids, None, space)
        if found.length != len(ids) or found.offset != len(found.node.tokens):
            return None
        if found.node.logits is not None:
            self._rows.move_to_end(found.node)
        return found.node.logits

    def nodes(self) -> Iterator[Node]:
        """All of them but the roots, each after those above it."""
        for root in self._roots.values():
            yield from _below(root)

    # ---- growing

    def fork(self, seq: int, found: Match) -> int | None:
        """Make ``seq`` a new sequence that ends at a resident match; returns one to share cells with.

        None means that the match is the root and there is nothing to share.
        """
        node = self.split(found.node, found.offset)
        source = next(iter(node.tips or node.seqs), None)
        self._place(seq, node)
        return source

    def advance(self, seqs: Sequence[int], tokens: Sequence[int]) -> Grown:
        """``tokens`` were evaluated for ``seqs``, which all end at one tip.

        Where the tree already holds the same tokens the sequences move onto the older cells, and
        the merges to be done in the cache are returned.
        """
        node = self.tip[seqs[0]]
        if len(tokens) == 1 == len(node.seqs) and _may_grow(node):
            node.tokens.append(tokens[0])  # the usual step: one branch, one token, nothing beside it
            node.end += 1
            self.cells += 1
            return _JUST_GROWN
        merges: list[Merge] = []
        done = known = 0
        while done < len(tokens):
            child = node.children.get(tokens[done])
            if child is None:
                node = self._grow(node, seqs, tokens[done:] if done else tokens)
                break
            length = common_prefix(child.tokens, tokens, done, len(tokens))
            source = next(iter(child.seqs), None)
            start = node.end
            child = self.split(child, length)
            if source is None:
                self.cells += length  # it was stored, and is resident now
            else:
                merges.append(Merge(source, start, child.end))
            self._move_down(seqs, node, child)
            node, done, known = child, done + length, known + length
        return Grown(merges, known)

    def enter(self, seq: int, node: Node) -> None:
        """The state of the stored ``node``, somewhere below the tip of ``seq``, is in cells again for it."""
        self.tip[seq].tips.discard(seq)
        self.tip[seq] = node
        node.tips.add(seq)
        above: Node | None = node
        while above is not None and seq not in above.seqs:
            if not above.seqs and above.parent is not None:
                self.cells += len(above.tokens)
            above.seqs.add(seq)
            above = above.parent

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
        if self._cuttable:
            self._attach(upper, node.piece)
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

    def touch(self, node: Node | None) -> None:
        """Mark the path to ``node`` as just used."""
        self._clock += 1
        while node is not None:
            node.last_used = self._clock
            node = node.parent

    def clear(self) -> None:
        """Forget everything, in every tier."""
        self._roots = {SHARED: Node(None, [], 0)}
        self.tip.clear()
        self._rows.clear()
        self.cells = self.stored_bytes = 0

    # ---- stored

    def store(self, node: Node, piece: Piece) -> None:
        """``piece`` holds the state of ``node``, from now on."""
        self._attach(node, piece)

    def plant(self, parent: Node, tokens: list[int], piece: Piece) -> Node:
        """A new node below ``parent`` that is only stored."""
        node = Node(parent, tokens, parent.end + len(tokens))
        parent.children[tokens[0]] = node
        self._attach(node, piece)
        return node

    def unload(self, piece: Piece) -> None:
        """``piece`` is not in host memory any more; it is still on disk."""
        if piece.data is not None:
            piece.data = None
            self.stored_bytes -= piece.size

    def load(self, piece: Piece, data: Any) -> None:
        """``piece`` is in host memory again."""
        piece.data = data
        self.stored_bytes += piece.size

    def unstore(self, node: Node) -> None:
        """The state of ``node`` is not kept outside the cells any more; it goes if no sequence holds it."""
        self._attach(node, None)
        self._remove_if_lost(node)

    def stored(self) -> Iterator[Node]:
        """Nodes with a state outside the cells, in no order."""
        return (node for node in self.nodes() if node.piece is not None)

    # ---- parked sequences

    def redundant(self, seq: int) -> bool:
        """Another sequence holds every cell that ``seq`` holds."""
        node = self.tip[seq]
        return node.parent is None or len(node.seqs) > 1

    def idle_cells(self, idle: Iterable[int]) -> int:
        """Cells that only sequences of ``idle`` hold."""
        parked = set(idle)
        seen: set[Node] = set()
        for seq in parked:
            node = self.tip[seq]
            while node not in seen and node.parent is not None and node.seqs <= parked:
                seen.add(node)
                node = node.parent
        return sum(len(node.tokens) for node in seen)

    def oldest(self, parked: Iterable[int], spared: Iterable[Node] = ()) -> int | None:
        """The parked sequence whose tip was used longest ago; ``spared`` nodes come last."""
        keep = set(spared)
        return min(parked, key=lambda s: (self.tip[s] in keep, self.tip[s].last_used), default=None)

    # ---- inside

    def _grow(self, node: Node, seqs: Sequence[int], tokens: Sequence[int]) -> Node:
        """New tokens below ``node``, in place when nothing else depends on where it ends."""
        self.cells += len(tokens)
        if len(node.seqs) == len(seqs) and _may_grow(node):
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
        above: Node | None = node
        while above is not None:
            above.seqs.add(seq)
            above = above.parent
        self.touch(node)

    def _leave(self, node: Node, seq: int) -> None:
        node.tips.discard(seq)
        if seq not in node.seqs:
            return
        node.seqs.discard(seq)
        if node.parent is not None and not node.seqs:
            self.cells -= len(node.tokens)
            self._remove_if_lost(node)

    def _remove_if_lost(self, node: Node) -> None:
        """Take off a node that no tier holds, and what hangs below it, which cannot be reached any more.

        Where states are those of whole paths, what hangs below can be; then the node stays for its tokens.
        """
        while node.parent is not None and not node.seqs and node.piece is None:
            if node.children and not self._cuttable:
                return
            parent = node.parent
            del parent.children[node.tokens[0]]
            for lost in (node, *_below(node)):
                self._attach(lost, None)
                lost.logits = None
                self._rows.pop(lost, None)
            if self._cuttable:
                return
            node = parent

    def _attach(self, node: Node, piece: Piece | None) -> None:
        old, node.piece = node.piece, piece
        if piece is not None:
            piece.users += 1
            if piece.users == 1 and piece.data is not None:
                self.stored_bytes += piece.size
        if old is not None:
            old.users -= 1
            if old.users == 0 and old.data is not None:
                self.stored_bytes -= old.size


_JUST_GROWN = Grown([], 0)


def _may_grow(node: Node) -> bool:
    """Whether nothing depends on where a node ends."""
    return node.logits is None and node.piece is None and node.parent is not None and not node.children


def _below(node: Node) -> Iterator[Node]:
    stack = list(node.children.values())
    while stack:
        child = stack.pop()
        yield child
        stack.extend(child.children.values())


def common_prefix(run: Sequence[int], ids: Sequence[int], start: int, end: int) -> int:
    """How many tokens of ``run`` equal ``ids[start:end]`` from their beginnings."""
    length = min(len(run), end - start)
    if list(run[:length]) == list(ids[start : start + length]):  # whole runs mostly match
        return length
    for index in range(length):
        if run[index] != ids[start + index]:
            return index
    return length
