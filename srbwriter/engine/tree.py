"""The tree of tokens: those that some tier holds, and those that somebody wants evaluated.

A node is a run of tokens. It is resident while sequences hold its cells (``node.seqs``), and stored while
its state lies outside them (``node.piece``); it can be both. One that is neither is absent, and stays only
while somebody wants what the model says after it, or after something below it (``node.demands``). What is
resident hangs below what is resident, so that a sequence is a path from the root to its tip; what is only
stored hangs below that, and what is absent below both. Two who want the same tokens want the same nodes, so
these are evaluated once. The tree only keeps account; what it says must be done to the cache (``Merge``) is
done by its owner. Pure Python, one thread; knows nothing of llama.cpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from .types import Priority


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

    ``users`` are the nodes it belongs to: a node that is cut in two leaves it to both, and either may go
    before the other. So it knows its ``tokens`` itself.
    """

    __slots__ = ("data", "end", "file", "salt", "size", "start", "tokens", "users")

    def __init__(
        self, start: int, tokens: Sequence[int], data: Any, size: int, file: Any = None, salt: str = ""
    ) -> None:  # fmt: skip
        self.start, self.end = start, start + len(tokens)
        self.tokens = tuple(tokens)
        self.data = data  # in host memory, or None
        self.file = file  # on disk, or None
        self.size = size  # bytes
        self.salt = salt  # of its last token's namespace
        self.users = 0


class Namespace(NamedTuple):
    """Which part of the tree a path lies in: what is evaluated in one namespace is not found in another.

    ``root`` is where the path begins: 0 for all requests that know nothing better, below 0 for those with
    other sets of adapters, above 0 for a request that shares nothing. With a ``salt`` the tokens from
    position ``start`` on are found under that salt alone; those before it are common to all.
    """

    root: int = 0
    salt: str = ""
    start: int = 0

    def key(self, token: int, position: int) -> Key:
        """Return the key of the child that begins with ``token`` at ``position``."""
        return (self.salt, token) if self.salt and position == self.start else token

    def run_end(self, position: int, end: int) -> int:
        """Return where a run from ``position`` to ``end`` has to stop: no node reaches across ``start``."""
        return min(end, self.start) if self.salt and position < self.start else end

    def begins_at(self, position: int) -> str:
        """Return the salt of a node that begins at ``position``, "" unless it is the first with one."""
        return self.salt if position == self.start else ""


SHARED = Namespace()
"""The namespace of all requests that know nothing better."""
_EMPTY_ROOTS = 64  # that nobody holds a sequence in any more

Key: TypeAlias = "int | tuple[str, int]"
"""What a node is found by below its parent: its first token, and its salt where it is the first with one."""


class Demand:
    """What the model says after a path of tokens is wanted.

    Of itself it has the answer kept at its node, where whoever comes there finds it. Kinds of it that want
    more are told of each answer (:meth:`hear`).
    """

    __slots__ = ("namespace", "node", "seq", "urgency")
    every = False
    """Whether it wants to hear what follows each token on the way, held or not."""

    def __init__(self, urgency: Priority, namespace: Namespace) -> None:
        self.urgency = urgency  # of who waits for it
        self.namespace = namespace
        self.node: Node | None = None  # where the path ends; None while nothing is wanted
        self.seq = -1  # the sequence that is on its way there; -1 while it waits

    def hear(self, position: int, logits: Any) -> None:
        """``logits`` follow the first ``position`` tokens of the path, and last until the next decode."""


class Node:
    """A run of tokens. ``end`` is the position after its last token.

    ``salt`` is that of its namespace where it is the first node with it, else "".
    """

    __slots__ = (
        "children", "demands", "end", "last_used", "logits", "parent", "piece", "salt", "seqs", "tips",
        "tokens",
    )  # fmt: skip

    def __init__(self, parent: Node | None, tokens: list[int], end: int, salt: str = "") -> None:
        self.parent = parent
        self.tokens = tokens
        self.end = end
        self.salt = salt
        self.children: dict[Key, Node] = {}
        self.seqs: set[int] = set()  # sequences that hold these cells
        self.tips: set[int] = set()  # of these, the ones that end here
        self.piece: Piece | None = None  # of a stored node
        self.logits: Any = None  # logits after the last token, if stored
        self.demands: list[Demand] = []  # that end here
        self.last_used = 0

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)

    @property
    def key(self) -> Key:
        """What it is found by below its parent."""
        return (self.salt, self.tokens[0]) if self.salt else self.tokens[0]

    @property
    def absent(self) -> bool:
        """Whether no tier holds it."""
        return not self.seqs and self.piece is None

    def below(self, above: Node) -> Node:
        """The node of the path to this one that follows ``above``."""
        node = self
        while node.parent is not above:
            assert node.parent is not None
            node = node.parent
        return node

    def upward(self) -> Iterator[Node]:
        """This node and those above it but the root; each may be cut in two once it has been given."""
        node = self
        while (above := node.parent) is not None:
            yield node
            node = above

    def ids(self) -> list[int]:
        """Tokens from the root to the end of this node."""
        return [t for node in reversed(list(self.upward())) for t in node.tokens]


class Root(Node):
    """Where all paths of a set of adapters begin, or those of one request that shares nothing."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(None, [], 0)
        self.number = number


class TokenTree:
    """Account of one model: a root for each set of adapters."""

    def __init__(self, logits_budget: int = 64, cuttable: bool = True) -> None:
        self._cuttable = cuttable  # a state is that of its tokens, and not of all tokens up to its end
        self._roots = {SHARED.root: Root(SHARED.root)}
        self.cells = 0  # sum of the resident runs: what the cache holds
        self.stored_bytes = 0  # of the pieces in host memory
        self.tip: dict[int, Node] = {}
        self._rows: OrderedDict[Node, None] = OrderedDict()  # nodes with stored logits, oldest first
        self._rows_budget = logits_budget
        self._clock = 0
        self.ahead: set[int] = set()
        """Sequences that write what nobody has asked to see yet. A node that only they used counts as never
        used (``last_used`` is 0): it is the first to go, and nothing that was used goes for it."""

    # ---- looking

    def root(self, namespace: Namespace = SHARED) -> Root:
        """Where the sequences of a namespace begin."""
        number = namespace.root
        if number not in self._roots:
            if len(self._roots) > _EMPTY_ROOTS:
                self._roots = {
                    n: root
                    for n, root in self._roots.items()
                    if root.seqs or root.children or n == SHARED.root
                }
            self._roots[number] = Root(number)
        return self._roots[number]

    def namespace_of(self, node: Node) -> Namespace:
        """Return the namespace that ``node`` lies in; where its salt is "", its start says nothing."""
        salt, start = "", 0
        while node.parent is not None:
            if node.salt:
                salt, start = node.salt, node.start
            node = node.parent
        assert isinstance(node, Root)
        return Namespace(node.number, salt, start)

    def match(self, ids: Sequence[int], limit: int | None = None, namespace: Namespace = SHARED) -> Match:
        """Longest prefix of ``ids`` that is kept, at most ``limit`` tokens of it."""
        end = len(ids) if limit is None else min(limit, len(ids))
        node, offset, position, resident = self.root(namespace), 0, 0, 0
        while position < end:
            child = node.children.get(namespace.key(ids[position], position))
            if child is None or (self._cuttable and child.absent):
                break
            offset = common_prefix(child.tokens, ids, position, namespace.run_end(position, end))
            node, position = child, position + offset
            if child.seqs:
                resident = position
            if offset < len(child.tokens):
                break
        return Match(node, offset, position, resident)

    def anchored(self, ids: Sequence[int], limit: int | None = None, namespace: Namespace = SHARED) -> Match:
        """Longest prefix at whose very end a sequence stops or a state was stored.

        That is all that a recurrent memory can resume.
        """
        found = self.match(ids, limit, namespace)
        node: Node = found.node
        if found.offset < len(node.tokens) and node.parent is not None:
            node = node.parent
        while node.parent is not None and not node.tips and node.piece is None:
            node = node.parent
        return Match(node, len(node.tokens), node.end, node.end if node.tips else 0)

    def logits_after(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Any:
        """Stored logits after exactly ``ids``, or None."""
        found = self.match(ids, None, namespace)
        if found.length != len(ids) or found.offset != len(found.node.tokens):
            return None
        if found.node.logits is not None:
            self._rows.move_to_end(found.node)
        return found.node.logits

    def nodes(self) -> Iterator[Node]:
        """All of them but the roots, each after those above it."""
        for root in self._roots.values():
            yield from _below(root)

    # ---- wanting

    def want(self, demand: Demand, ids: Sequence[int]) -> Node:
        """``demand`` is for what follows ``ids``; the node where they end."""
        return self.want_at(demand, self.reach(ids, demand.namespace))

    def want_at(self, demand: Demand, node: Node) -> Node:
        """``demand`` is for what follows ``node``."""
        self.unwant(demand)
        node.demands.append(demand)
        demand.node = node
        return node

    def want_next(self, demand: Demand, token: int) -> None:
        """The path of ``demand`` is longer by ``token``."""
        node = demand.node
        assert node is not None
        node.demands.remove(demand)
        key = demand.namespace.key(token, node.end)
        child = node.children.get(key)
        if child is None:
            salt = demand.namespace.begins_at(node.end)
            child = node.children[key] = Node(node, [token], node.end + 1, salt)
        elif len(child.tokens) > 1:
            child = self.split(child, 1)
        child.demands.append(demand)
        demand.node = child

    def unwant(self, demand: Demand) -> None:
        """Nothing is wanted by ``demand`` any more."""
        node, demand.node = demand.node, None
        if node is not None:
            node.demands.remove(demand)
            self.prune(node)

    def reach(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Node:
        """The node that ends with ``ids``, which may be absent."""
        node, position = self.root(namespace), 0
        while position < len(ids):
            end = namespace.run_end(position, len(ids))
            key = namespace.key(ids[position], position)
            child = node.children.get(key)
            if child is None:
                child = Node(node, list(ids[position:end]), end, namespace.begins_at(position))
                node.children[key] = child
                node, position = child, end
                continue
            length = common_prefix(child.tokens, ids, position, end)
            node, position = self.split(child, length), position + length
        return node

    # ---- growing

    def fork(self, seq: int, node: Node) -> int | None:
        """Make ``seq`` a new sequence that ends at a resident node; returns one to share cells with.

        None means that the node is the root and there is nothing to share.
        """
        source = next(iter(node.tips or node.seqs), None)
        self._place(seq, node)
        return source

    def advance(self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace = SHARED) -> Grown:
        """``tokens`` were evaluated for ``seqs``, which all end at one tip, in a namespace.

        Where the tree already holds the same tokens the sequences move onto the older cells, and
        the merges to be done in the cache are returned.
        """
        node = self.tip[seqs[0]]
        salt = namespace.begins_at(node.end)
        if len(tokens) == 1 == len(node.seqs) and not salt and self._take_in(node, tokens):
            return _JUST_GROWN  # the usual step: one branch, one token, nothing beside it
        merges: list[Merge] = []
        done = known = 0
        while done < len(tokens):
            salt = namespace.begins_at(node.end)
            until = done - node.end + namespace.run_end(node.end, node.end + len(tokens) - done)
            child = node.children.get(namespace.key(tokens[done], node.end))
            if child is None:
                node = self._grow(node, seqs, tokens[done:until], salt)
                done = until
                continue
            length = common_prefix(child.tokens, tokens, done, until)
            source, start = next(iter(child.seqs), None), node.end
            if source is not None or child.piece is not None:
                known += length
            elif (
                len(node.seqs) == len(seqs) and not salt and self._take_in(node, tokens[done : done + length])
            ):
                done += length
                continue
            child = self.split(child, length)
            if source is None:
                self.cells += length  # it was stored or absent, and is resident now
            else:
                merges.append(Merge(source, start, child.end))
            self._move_down(seqs, node, child)
            node, done = child, done + length
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
        upper = Node(parent, node.tokens[:offset], node.start + offset, node.salt)
        node.salt = ""
        upper.seqs = set(node.seqs)
        upper.last_used = node.last_used
        if self._cuttable:
            self._attach(upper, node.piece)
        parent.children[upper.key] = upper
        node.tokens = node.tokens[offset:]
        node.parent = upper
        upper.children[node.tokens[0]] = node
        return upper

    def store_logits(self, seq: int, row: Any, awaited: bool = False) -> None:
        """Keep the logits after the tip of ``seq``, so that forking there evaluates nothing.

        ``awaited``: whoever has read up to there goes on from them.
        """
        node = self.tip[seq]
        if node.parent is None:
            return
        node.logits = row
        self._rows[node] = None
        self._rows.move_to_end(node, last=node.last_used > 0)
        if len(self._rows) > self._rows_budget:
            self._forget_logits(self._row_to_go(node, awaited))

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
        self.ahead.discard(seq)
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
        self._roots = {SHARED.root: Root(SHARED.root)}
        self.tip.clear()
        self._rows.clear()
        self.cells = self.stored_bytes = 0

    # ---- stored

    def store(self, node: Node, piece: Piece) -> None:
        """``piece`` holds the state of ``node``, from now on."""
        self._attach(node, piece)

    def plant(self, ids: Sequence[int], piece: Piece, namespace: Namespace = SHARED) -> Node:
        """``piece`` is a state of the end of ``ids``, of which no tier holds anything yet."""
        last = self.reach(ids, namespace)
        for node in last.upward() if self._cuttable else (last,):
            if not node.absent:
                break
            self._attach(node, piece)
        return last

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

    def unused(self, seq: int) -> bool:
        """Whether nobody has used the end of ``seq`` yet: it was written ahead."""
        return not self.tip[seq].last_used

    def oldest(self, parked: Iterable[int], spared: Iterable[Node] = ()) -> int | None:
        """The parked sequence whose tip was used longest ago; ``spared`` nodes come last."""
        keep = set(spared)
        return min(parked, key=lambda s: (self.tip[s] in keep, self.tip[s].last_used), default=None)

    # ---- inside

    def _grow(self, node: Node, seqs: Sequence[int], tokens: Sequence[int], salt: str = "") -> Node:
        """New tokens below ``node``, in place when nothing else depends on where it ends.

        With a ``salt`` they are the first of its namespace, and have a node of their own.
        """
        may_take_in = not salt and not node.children and len(node.seqs) == len(seqs)
        if may_take_in and self._take_in(node, tokens):
            return node
        self.cells += len(tokens)
        child = Node(node, list(tokens), node.end + len(tokens), salt)
        child.last_used = 0 if self.ahead and self.ahead.issuperset(seqs) else node.last_used
        node.children[child.key] = child
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
        if seq not in self.ahead:
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
        """Forget a node that no tier holds, and what is stored below it, which can no longer be reached.

        What somebody wants stays, to be evaluated. Where states are those of whole paths, what is stored
        below can be reached, and stays as well.
        """
        if node.parent is None or not node.absent:
            return
        leaves = [node]
        if self._cuttable:
            lost = [node, *_below(node)]
            for each in lost:
                self._attach(each, None)
                self._forget_logits(each)
            leaves = [each for each in lost if not each.children]
        for leaf in leaves:
            self.prune(leaf)

    def prune(self, node: Node) -> None:
        """Take off what no tier holds and nobody wants, from ``node`` upwards."""
        while (parent := node.parent) is not None:
            needed = node.seqs or node.children or node.demands or node.piece is not None
            if needed or parent.children.get(node.key) is not node:  # or it was taken off before
                return
            del parent.children[node.key]
            self._forget_logits(node)
            node = parent

    def _row_to_go(self, stored: Node, awaited: bool) -> Node:
        """Whose row makes room for the one just ``stored``: the oldest that nobody waits for.

        One that somebody waits for would be evaluated for them again, and go again.
        """
        for node in self._rows:
            if not (awaited and node is stored) and all(demand.seq >= 0 for demand in node.demands):
                return node
        return next(node for node in self._rows if node is not stored)

    def _forget_logits(self, node: Node) -> None:
        if node.logits is not None:
            node.logits = None
            self._rows.pop(node, None)

    def _take_in(self, node: Node, tokens: Sequence[int]) -> bool:
        """Let ``node`` itself grow by ``tokens``, if nothing depends on where it ends.

        Nothing hangs below it then but the absent node of which these are the first tokens.
        """
        if node.logits is not None or node.piece is not None or node.demands or node.parent is None:
            return False
        if node.last_used and not self.ahead.isdisjoint(node.seqs):
            return False  # what comes now has not been used yet
        children = node.children
        if children:
            child = children.get(tokens[0])
            if child is None or len(children) > 1 or not child.absent or child.logits is not None:
                return False
            if len(tokens) < len(child.tokens):
                child.tokens, child.parent = child.tokens[len(tokens) :], node
                node.children = {child.tokens[0]: child}
            else:
                node.children, node.demands = child.children, child.demands
                for below in child.children.values():
                    below.parent = node
                for demand in child.demands:
                    demand.node = node
        node.tokens += tokens
        node.end += len(tokens)
        self.cells += len(tokens)
        return True

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
