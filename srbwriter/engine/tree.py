"""The token tree: tokens that some tier of the cache holds, and tokens that a demand needs evaluated.

A node is a run of tokens. A node is resident while sequences hold its cells (``node.seqs``), and stored while
its state is outside the cells (``node.block``); it can be both. A node that is neither is absent, and stays
only while there is a demand at it or below it (``node.demands``). Resident nodes hang below resident nodes,
so a sequence is a path from the root to its tip. Stored nodes hang below resident ones, absent nodes below
both. Two demands for the same tokens share the same nodes, so a token is evaluated once. The tree only keeps
account: its owner applies each ``Merge`` to the cells. Pure Python, for one thread; it knows nothing of
llama.cpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from .types import Priority


class Merge(NamedTuple):
    """Cells [start, end) of ``source`` hold the tokens that were just evaluated again: share these cells."""

    source: int
    start: int
    end: int


class Match(NamedTuple):
    """The held prefix of some ids: ``length`` tokens, which end ``offset`` tokens into ``node``."""

    node: Node
    offset: int
    length: int


class Advance(NamedTuple):
    """The result of :meth:`TokenTree.advance`: some tier held ``known`` of the tokens already."""

    merges: list[Merge]
    known: int


class KVBlock:
    """The state of the tokens at positions [start, end) of one path, outside the cells.

    ``users`` counts the nodes that the block belongs to. When a node is split, both halves keep the block and
    either may go first; so the block keeps its own ``tokens``.
    """

    __slots__ = ("data", "end", "file", "salt", "size", "start", "tokens", "users")

    def __init__(self, start: int, tokens: Sequence[int], data: Any, size: int, file: Any = None) -> None:
        self.start, self.end = start, start + len(tokens)
        self.tokens = tuple(tokens)
        self.data = data  # in host memory, or None
        self.file = file  # on disk, or None
        self.size = size  # bytes
        self.salt = ""  # of its last token's namespace
        self.users = 0


class Namespace(NamedTuple):
    """The part of the tree that holds a path. Tokens evaluated in one namespace are not found in another.

    ``root`` is where the path begins: 0 by default, above 0 for a request that shares nothing. With a
    ``salt``, the tokens from position ``start`` on are found under that salt only; all salts share the tokens
    before ``start``.
    """

    root: int = 0
    salt: str = ""
    start: int = 0

    def child_key(self, token: int, position: int) -> Key:
        """Return the key of the child that begins with ``token`` at ``position``."""
        return (self.salt, token) if self.salt and position == self.start else token

    def run_end(self, position: int, end: int) -> int:
        """Return where a node from ``position`` to ``end`` has to stop: no node reaches across ``start``."""
        return min(end, self.start) if self.salt and position < self.start else end

    def salt_at(self, position: int) -> str:
        """Return the salt of a node that begins at ``position``: "" unless it is the first with a salt."""
        return self.salt if position == self.start else ""


SHARED = Namespace()
"""The default namespace."""
_EMPTY_ROOTS = 64
"""Roots that may stay although no sequence uses them."""

Key: TypeAlias = "int | tuple[str, int]"
"""The key of a node among its siblings: its first token, and its salt if it is the first node with a salt."""


class Demand:
    """A demand for the logits after a path of tokens.

    By default the answer is kept at the node where the path ends, for the next demand there. Subclasses may
    override :meth:`on_logits`.
    """

    __slots__ = ("namespace", "node", "seq", "spare", "urgency")
    every_token = False
    """Whether the demand wants the logits after each token of the path, held or not."""

    def __init__(self, urgency: Priority, namespace: Namespace) -> None:
        self.urgency = urgency
        self.namespace = namespace
        self.node: Node | None = None  # where the path ends; None while nothing is wanted
        self.spare: Node | None = None  # a node that was below it, for the next token
        self.seq = -1  # the sequence that evaluates the path; -1 while the demand waits

    def on_logits(self, position: int, logits: Any) -> None:
        """Take the ``logits`` after the first ``position`` tokens; they are valid until the next decode."""


class Node:
    """A run of tokens. ``end`` is the position after its last token.

    ``salt`` is the salt of its namespace if this is the first node with it, else "".
    """

    __slots__ = (
        "apart", "block", "children", "demands", "end", "last_used", "logits", "parent", "salt", "seqs",
        "tips", "tokens",
    )  # fmt: skip

    def __init__(self, parent: Node | None, tokens: list[int], end: int, salt: str = "") -> None:
        self.parent = parent
        self.tokens = tokens
        self.end = end
        self.salt = salt
        self.children: dict[Key, Node] = {}
        self.seqs: set[int] = set()  # sequences that hold these cells
        self.tips: set[int] = set()  # of these, the ones that end here
        self.block: KVBlock | None = None  # of a stored node
        self.logits: Any = None  # logits after the last token, if stored
        self.demands: list[Demand] = []  # that end here
        self.last_used = 0
        self.apart = 0  # of its tokens, those whose cells lie apart from the others'

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)

    @property
    def key(self) -> Key:
        """The key of this node among its siblings."""
        return (self.salt, self.tokens[0]) if self.salt else self.tokens[0]

    @property
    def absent(self) -> bool:
        """Whether no tier holds the node."""
        return not self.seqs and self.block is None

    def ancestor_below(self, above: Node) -> Node:
        """Return the node that follows ``above`` on the path to this node."""
        node = self
        while node.parent is not above:
            assert node.parent is not None
            node = node.parent
        return node

    def path_up(self) -> Iterator[Node]:
        """Yield this node and its ancestors but the root; a node may be split once it has been yielded."""
        node = self
        while (above := node.parent) is not None:
            yield node
            node = above

    def token_ids(self) -> list[int]:
        """Return the tokens from the root to the end of this node."""
        return [t for node in reversed(list(self.path_up())) for t in node.tokens]


class Root(Node):
    """The start of all shared paths, or of those of one request that shares nothing."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        super().__init__(None, [], 0)
        self.number = number


class TokenTree:
    """The tree of a memory that can be resumed and cut after any token. See also :class:`SnapshotTree`."""

    def __init__(self, logits_budget: int = 64) -> None:
        self._roots = {SHARED.root: Root(SHARED.root)}
        self.cells = 0  # sum of the resident runs: what the cache holds
        self.stored_bytes = 0  # of the blocks in host memory
        self.tip: dict[int, Node] = {}
        self._rows: OrderedDict[Node, None] = OrderedDict()  # nodes with stored logits, oldest first
        self._rows_budget = logits_budget
        self._clock = 0
        self.beside = False  # whether a token just evaluated alone has others' cells on both sides of its own
        self.prefetching: set[int] = set()
        """Sequences that write text which nobody has asked to see yet. A node that only they used counts as
        never used (``last_used`` is 0): it is evicted first, and no used node is evicted for it."""

    # ---- looking up

    def root(self, namespace: Namespace = SHARED) -> Root:
        """Return the root of a namespace."""
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
        """Return the namespace of ``node``; where its salt is "", its start has no meaning."""
        salt, start = "", 0
        while node.parent is not None:
            if node.salt:
                salt, start = node.salt, node.start
            node = node.parent
        assert isinstance(node, Root)
        return Namespace(node.number, salt, start)

    def match_prefix(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Match:
        """Return the longest prefix of ``ids`` that some tier holds."""
        end = len(ids)
        node: Node = self.root(namespace)
        position = 0
        found = Match(node, 0, 0)
        while position < end:
            child = node.children.get(namespace.child_key(ids[position], position))
            if child is None:
                break
            offset = common_prefix(child.tokens, ids, position, namespace.run_end(position, end))
            node, position = child, position + offset
            if not child.absent:
                found = Match(child, offset, position)
            if offset < len(child.tokens):
                break
        return found

    def match_resumable(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Match:
        """Return the longest prefix of ``ids`` from which a sequence can be resumed."""
        return self.match_prefix(ids, namespace)

    def longest_prefix(self, node: Node, most: int | None = None) -> Node:
        """Return the last node of the path to ``node`` from which a sequence can be resumed.

        The node ends at position ``most`` at the latest; a held node may be split for that.
        """
        if most is not None:
            while node.parent is not None and node.start >= most:
                node = node.parent
            if node.end > most and node.parent is not None:
                node = self._cut(node, most)
        while node.parent is not None and node.block is None and not self.holders(node):
            node = node.parent
        return node

    def holders(self, node: Node) -> set[int]:
        """Return the sequences from which another can be forked at the end of ``node``."""
        return node.seqs

    def state_nodes(self, node: Node) -> Iterable[Node]:
        """Return the nodes whose states make up the state after ``node``, the last first."""
        return node.path_up()

    def logits_after(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Any:
        """Return the stored logits after exactly ``ids``, or None."""
        node: Node = self.root(namespace)
        while node.end < len(ids):
            start = node.end
            child = node.children.get(namespace.child_key(ids[start], start))
            if child is None or common_prefix(child.tokens, ids, start, len(ids)) < len(child.tokens):
                return None
            node = child
        if node.logits is not None:
            self._rows.move_to_end(node)
        return node.logits

    def nodes(self) -> Iterator[Node]:
        """Yield all nodes but the roots, each after its ancestors."""
        for root in self._roots.values():
            yield from _below(root)

    # ---- demands

    def add_demand(self, demand: Demand, ids: Sequence[int]) -> Node:
        """Let ``demand`` ask for the logits after ``ids``; return the node where they end."""
        return self.add_demand_at(demand, self.ensure_path(ids, demand.namespace))

    def add_demand_at(self, demand: Demand, node: Node) -> Node:
        """Let ``demand`` ask for the logits after ``node``."""
        self.remove_demand(demand)
        node.demands.append(demand)
        demand.node = node
        return node

    def extend_demand(self, demand: Demand, token: int) -> None:
        """Add ``token`` to the path of ``demand``."""
        node, spare = demand.node, demand.spare
        assert node is not None
        node.demands.remove(demand)
        key, salt = demand.namespace.child_key(token, node.end), demand.namespace.salt_at(node.end)
        child = node.children.get(key)
        if child is None:
            if spare is None or spare.parent is not node or salt:
                child = Node(node, [token], node.end + 1, salt)
            else:
                child, spare.tokens[0], spare.end, spare.last_used = spare, token, node.end + 1, 0
                demand.spare = None
            node.children[key] = child
        elif len(child.tokens) > 1:
            child = self.split(child, 1)
        child.demands.append(demand)
        demand.node = child

    def remove_demand(self, demand: Demand) -> None:
        """Take ``demand`` off the tree, with the absent nodes that only it needed."""
        node, demand.node, demand.spare = demand.node, None, None
        if node is not None:
            node.demands.remove(demand)
            self.prune(node)

    def ensure_path(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Node:
        """Return the node that ends with ``ids``; absent nodes are made for what no tier holds."""
        node, position = self.root(namespace), 0
        while position < len(ids):
            end = namespace.run_end(position, len(ids))
            key = namespace.child_key(ids[position], position)
            child = node.children.get(key)
            if child is None:
                child = Node(node, list(ids[position:end]), end, namespace.salt_at(position))
                node.children[key] = child
                node, position = child, end
                continue
            length = common_prefix(child.tokens, ids, position, end)
            node, position = self.split(child, length), position + length
        return node

    # ---- growing

    def add_sequence(self, seq: int, node: Node) -> int | None:
        """Make ``seq`` a new sequence that ends at a resident node; return a sequence to share cells with.

        None means that the node is the root and there is nothing to share.
        """
        source = next(iter(node.tips or node.seqs), None)
        self.tip[seq] = node
        node.tips.add(seq)
        above: Node | None = node
        while above is not None:
            above.seqs.add(seq)
            above = above.parent
        if seq not in self.prefetching:
            self.mark_used(node)
        return source

    def advance_single(self, demand: Demand) -> bool:
        """Record that the one token of ``demand`` was evaluated; False where :meth:`advance` is needed.

        This is the usual step of a branch that has parted from its siblings: the node above grows by the
        token, and the node of the token is kept for the next one. It costs a fraction of :meth:`advance`.
        """
        node = demand.node
        assert node is not None
        tip = node.parent
        if (
            tip is None or tip.parent is None or len(tip.seqs) != 1 or len(tip.children) != 1
            or len(node.demands) != 1 or len(node.tokens) != 1 or node.children or node.salt or node.seqs
            or tip.demands or self.prefetching or node.block is not None or tip.block is not None
            or tip.logits is not None or node.logits is not None
        ):  # fmt: skip
            return False
        tip.tokens.append(node.tokens[0])
        tip.end += 1
        tip.apart += self.beside
        tip.children.clear()
        node.demands.clear()
        tip.demands.append(demand)
        demand.node, demand.spare = tip, node
        self.cells += 1
        return True

    def advance(self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace = SHARED) -> Advance:
        """Record that ``tokens`` were evaluated for ``seqs``, which all end at one tip.

        Where the tree already holds the same tokens, the sequences move onto the older cells, and the merges
        to be done in the cache are returned.
        """
        node = self.tip[seqs[0]]
        salt = namespace.salt_at(node.end)
        if len(tokens) == 1 == len(node.seqs) and not salt and self._extend(node, tokens):
            return _NOTHING_KNOWN  # the usual step: one branch, one token, no sibling
        merges: list[Merge] = []
        done = known = 0
        while done < len(tokens):
            salt = namespace.salt_at(node.end)
            until = done - node.end + namespace.run_end(node.end, node.end + len(tokens) - done)
            child = node.children.get(namespace.child_key(tokens[done], node.end))
            if child is None:
                node = self._grow(node, seqs, tokens[done:until], salt)
                done = until
                continue
            length = common_prefix(child.tokens, tokens, done, until)
            source, start = next(iter(child.seqs), None), node.end
            if source is not None or child.block is not None:
                known += length
            elif (
                len(node.seqs) == len(seqs) and not salt and self._extend(node, tokens[done : done + length])
            ):
                done += length
                continue
            child = self.split(child, length)
            if source is None:
                self.cells += length  # it was stored or absent, and is resident now
                child.apart = int(self.beside and len(tokens) == 1)
            else:
                merges.append(Merge(source, start, child.end))
            self._move_down(seqs, node, child)
            node, done = child, done + length
        return Advance(merges, known)

    def attach_sequence(self, seq: int, node: Node) -> None:
        """Record that cells of ``seq`` hold ``node`` too, which is below the tip of ``seq``."""
        self.tip[seq].tips.discard(seq)
        self.tip[seq] = node
        node.tips.add(seq)
        above: Node | None = node
        while above is not None and seq not in above.seqs:
            if not above.seqs and above.parent is not None:
                self.cells += len(above.tokens)
                above.apart = 0
            above.seqs.add(seq)
            above = above.parent

    def split(self, node: Node, offset: int) -> Node:
        """Split ``node`` after ``offset`` tokens; return the node that ends there."""
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
        upper.apart = node.apart * offset // len(node.tokens)
        node.apart -= upper.apart
        self._share_block(node, upper)
        parent.children[upper.key] = upper
        node.tokens = node.tokens[offset:]
        node.parent = upper
        upper.children[node.tokens[0]] = node
        return upper

    def store_logits(self, seq: int, row: Any, awaited: bool = False) -> None:
        """Keep the logits after the tip of ``seq``, so that forking there evaluates nothing.

        ``awaited``: a demand is about to continue from these logits, so they are not the first to go.
        """
        node = self.tip[seq]
        if node.parent is None:
            return
        node.logits = row
        self._rows[node] = None
        self._rows.move_to_end(node, last=node.last_used > 0)
        if len(self._rows) > self._rows_budget:
            self._forget_logits(self._logits_to_drop(node, awaited))

    @property
    def stored_rows(self) -> int:
        return len(self._rows)

    # ---- shrinking

    def truncate(self, seq: int, end: int) -> None:
        """Let ``seq`` end at position ``end``."""
        node = self.tip[seq]
        while node.start >= end and node.parent is not None:
            parent = node.parent
            self._remove_from(node, seq)
            parent.tips.add(seq)
            self.tip[seq] = node = parent
        if node.end > end:
            upper = self.split(node, end - node.start)
            self._remove_from(node, seq)
            upper.tips.add(seq)
            self.tip[seq] = upper

    def remove_sequence(self, seq: int) -> None:
        """Forget ``seq``, and the nodes that nothing else holds."""
        self.prefetching.discard(seq)
        node: Node | None = self.tip.pop(seq)
        node.tips.discard(seq)
        while node is not None:
            parent = node.parent
            self._remove_from(node, seq)
            node = parent

    def mark_used(self, node: Node | None) -> None:
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

    # ---- stored states

    def set_block(self, node: Node, block: KVBlock | None) -> None:
        """Let ``block`` be the stored state of ``node``; None for a node that is not stored."""
        old, node.block = node.block, block
        if block is not None:
            block.users += 1
            if block.users == 1 and block.data is not None:
                self.stored_bytes += block.size
        if old is not None:
            old.users -= 1
            if old.users == 0 and old.data is not None:
                self.stored_bytes -= old.size

    def add_block(self, ids: Sequence[int], block: KVBlock, namespace: Namespace = SHARED) -> Node:
        """Let ``block`` be the stored state of the end of ``ids``, of which no tier holds anything yet."""
        last = self.ensure_path(ids, namespace)
        for node in self.state_nodes(last):
            if not node.absent:
                break
            self.set_block(node, block)
        return last

    def unload_block(self, block: KVBlock) -> None:
        """Take the data of ``block`` out of host memory; its file stays on disk."""
        if block.data is not None:
            block.data = None
            self.stored_bytes -= block.size

    def load_block(self, block: KVBlock, data: Any) -> None:
        """Put the data of ``block`` into host memory again."""
        block.data = data
        self.stored_bytes += block.size

    def drop_block(self, node: Node) -> None:
        """Forget the stored state of ``node``; the node goes if no sequence holds it."""
        self.set_block(node, None)
        self._remove_if_lost(node)

    # ---- idle sequences

    def count_idle_cells(self, idle: set[int]) -> int:
        """Return how many cells only sequences of ``idle`` hold."""
        seen: set[Node] = set()
        for seq, tip in self.tip.items():  # few sequences run, and most of them share most of their path
            if seq not in idle:
                node = tip
                while node not in seen and node.parent is not None:
                    seen.add(node)
                    node = node.parent
        return self.cells - sum(len(node.tokens) for node in seen)

    def is_unused(self, seq: int) -> bool:
        """Whether the end of ``seq`` is unused so far: it was prefetched."""
        return not self.tip[seq].last_used

    def least_recent(self, seqs: Iterable[int], last: Iterable[Node] = ()) -> int | None:
        """Return the sequence whose tip was used longest ago; those that end at ``last`` come last."""
        keep = set(last)
        return min(seqs, key=lambda s: (self.tip[s] in keep, self.tip[s].last_used), default=None)

    # ---- inside

    def _grow(self, node: Node, seqs: Sequence[int], tokens: Sequence[int], salt: str = "") -> Node:
        """Add new tokens below ``node``, or to it when nothing else depends on where it ends.

        With a ``salt`` they are the first of its namespace, and get a node of their own.
        """
        may_extend = not salt and not node.children and len(node.seqs) == len(seqs)
        if may_extend and self._extend(node, tokens):
            return node
        self.cells += len(tokens)
        child = Node(node, list(tokens), node.end + len(tokens), salt)
        child.last_used = 0 if self.prefetching and self.prefetching.issuperset(seqs) else node.last_used
        child.apart = int(self.beside and len(tokens) == 1)
        node.children[child.key] = child
        self._move_down(seqs, node, child)
        return child

    def _move_down(self, seqs: Sequence[int], node: Node, child: Node) -> None:
        child.seqs.update(seqs)
        child.tips.update(seqs)
        node.tips.difference_update(seqs)
        for seq in seqs:
            self.tip[seq] = child

    def _remove_from(self, node: Node, seq: int) -> None:
        node.tips.discard(seq)
        if seq not in node.seqs:
            return
        node.seqs.discard(seq)
        if node.parent is not None and not node.seqs:
            self.cells -= len(node.tokens)
            self._remove_if_lost(node)

    def _cut(self, node: Node, position: int) -> Node:
        """Return the last node on the path to ``node`` that can be held up to ``position``, inside of it."""
        assert node.parent is not None
        return node.parent if node.absent else self.split(node, position - node.start)

    def _share_block(self, node: Node, upper: Node) -> None:
        """Let ``upper``, the first part of ``node``, have its share of the stored state."""
        self.set_block(upper, node.block)

    def _remove_if_lost(self, node: Node) -> None:
        """Forget a node that no tier holds, and what is stored below it, which can no longer be reached.

        Nodes with demands stay, to be evaluated.
        """
        if node.parent is None or not node.absent:
            return
        lost = [node, *_below(node)]
        for each in lost:
            self.set_block(each, None)
            self._forget_logits(each)
        for each in lost:
            if not each.children:
                self.prune(each)

    def prune(self, node: Node) -> None:
        """Remove ``node`` and its ancestors as far as no tier holds them and no demand needs them."""
        while (parent := node.parent) is not None:
            needed = node.seqs or node.children or node.demands or node.block is not None
            if needed or parent.children.get(node.key) is not node:  # or it was taken off before
                return
            del parent.children[node.key]
            self._forget_logits(node)
            node = parent

    def _logits_to_drop(self, stored: Node, awaited: bool) -> Node:
        """Return the node whose logits make room for those just ``stored``: the oldest that no demand awaits.

        Logits that a demand waits for would be evaluated for it again, and be dropped again.
        """
        for node in self._rows:
            if not (awaited and node is stored) and all(demand.seq >= 0 for demand in node.demands):
                return node
        return next(node for node in self._rows if node is not stored)

    def _forget_logits(self, node: Node) -> None:
        if node.logits is not None:
            node.logits = None
            self._rows.pop(node, None)

    def _extend(self, node: Node, tokens: Sequence[int]) -> bool:
        """Add ``tokens`` to ``node`` itself; False if something depends on where it ends.

        Below it there may only be the absent node that begins with these tokens.
        """
        if node.logits is not None or node.block is not None or node.demands or node.parent is None:
            return False
        if node.last_used and not self.prefetching.isdisjoint(node.seqs):
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
        node.apart += self.beside and len(tokens) == 1
        self.cells += len(tokens)
        return True


class SnapshotTree(TokenTree):
    """The tree of a memory that is resumed only where a sequence ends or a state was stored.

    A stored state is that of all tokens up to its end, so it can be restored without the nodes above it.
    """

    def match_resumable(self, ids: Sequence[int], namespace: Namespace = SHARED) -> Match:
        found = self.match_prefix(ids, namespace)
        node: Node = found.node
        if found.offset < len(node.tokens) and node.parent is not None:
            node = node.parent
        node = self.longest_prefix(node)
        return Match(node, len(node.tokens), node.end)

    def holders(self, node: Node) -> set[int]:
        return node.tips

    def state_nodes(self, node: Node) -> Iterable[Node]:
        return (node,)

    def _cut(self, node: Node, position: int) -> Node:
        assert node.parent is not None
        return node.parent

    def _share_block(self, node: Node, upper: Node) -> None:
        """The state is that of the end of ``node`` alone."""

    def _remove_if_lost(self, node: Node) -> None:
        """Forget a node that no tier holds; what is stored below it can still be reached."""
        if node.parent is not None and node.absent:
            self.prune(node)


_NOTHING_KNOWN = Advance([], 0)


def _below(node: Node) -> Iterator[Node]:
    stack = list(node.children.values())
    while stack:
        child = stack.pop()
        yield child
        stack.extend(child.children.values())


def common_prefix(run: Sequence[int], ids: Sequence[int], start: int, end: int) -> int:
    """Return how many tokens of ``run`` and of ``ids[start:end]`` are equal from their beginnings on."""
    length = min(len(run), end - start)
    if list(run[:length]) == list(ids[start : start + length]):  # whole runs mostly match
        return length
    for index in range(length):
        if run[index] != ids[start + index]:
            return index
    return length
