"""The token tree: what the cells of a context and host memory hold, as paths of tokens.

A node is a run of tokens. It is resident while sequences hold its cells (``node.seqs``), and stored while
host memory has its state (``node.state``); it can be both. A sequence is a path from a root to its tip.
Stored nodes hang below resident ones. Each salt has a root of its own: tokens evaluated
for one are not found for another. The tree only keeps account:
its owner applies each :class:`Merge` to the cells. Pure Python, for one thread; it knows nothing of
llama.cpp.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from .types import Priority

PRIVATE = "\0"
"""The salts of requests that share nothing begin with it."""
_EMPTY_ROOTS = 64
"""Roots that may stay although nothing is held below them."""


class Demand:
    """A demand for the logits after a path of tokens. Subclasses have the path."""

    __slots__ = ("salt", "seq", "urgency")

    def __init__(self, urgency: Priority, salt: str) -> None:
        self.urgency = urgency
        self.salt = salt
        self.seq = -1  # the sequence that evaluates the path; -1 while the demand waits

    @property
    def path(self) -> list[int]:
        """Return all tokens from the root on."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Return how many tokens the path has."""
        return len(self.path)

    @property
    def last_token(self) -> int:
        return self.path[-1]

    @property
    def every_token(self) -> bool:
        """Whether the demand wants the logits after each token of the path, held or not."""
        return False


class NodeState:
    """The state of the tokens at positions [start, end) of a path, in host memory.

    ``users`` counts the nodes that it belongs to: when a node is split, both halves keep it and either may go
    first. So it has its own ``tokens``. ``record`` says where a story's file has it.
    """

    __slots__ = ("data", "end", "record", "start", "tokens", "users")

    def __init__(self, start: int, tokens: Sequence[int], data: Any, record: Any = None) -> None:
        self.start, self.end = start, start + len(tokens)
        self.tokens = tuple(tokens)
        self.data = data
        self.record = record
        self.users = 0

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return int(self.data.size)


class TokenNode:
    """A run of tokens. ``end`` is the position after its last token.

    ``written`` says that they were evaluated one at a time: the cells of branches written together alternate.
    """

    __slots__ = (
        "children", "end", "last_used", "logits", "salt", "parent", "seqs", "state", "tokens", "written",
    )  # fmt: skip

    def __init__(self, parent: TokenNode | None, tokens: list[int], end: int, written: bool = False) -> None:
        self.parent = parent
        self.tokens, self.end, self.written = tokens, end, written
        self.salt: str = "" if parent is None else parent.salt
        self.children: dict[int, TokenNode] = {}  # by their first tokens
        self.seqs: set[int] = set()  # sequences that hold these cells
        self.state: NodeState | None = None
        self.logits: Any = None  # after the last token, if they are stored
        self.last_used = 0  # 0: by background work only

    @property
    def start(self) -> int:
        return self.end - len(self.tokens)

    def path_up(self) -> Iterator[TokenNode]:
        """Yield this node and its ancestors but the root; a node may be split once it has been yielded."""
        node = self
        while (above := node.parent) is not None:
            yield node
            node = above

    def token_ids(self) -> list[int]:
        """Return the tokens from the root to the end of this node."""
        return [t for node in reversed(list(self.path_up())) for t in node.tokens]


class Merge(NamedTuple):
    """Cells [start, end) of ``source`` hold the tokens that were just evaluated again: share these cells."""

    source: int
    start: int
    end: int


class TokenTree:
    """The tree of one context.

    Args:
        rows: rows of logits that are stored at most.
        whole: the memory is resumed only where a sequence ends or a state was stored, as that of recurrent
            and hybrid models. Such a state is that of all tokens up to its end.
    """

    def __init__(self, rows: int = 64, whole: bool = False) -> None:
        self.whole = whole
        self._roots: dict[str, TokenNode] = {}
        self.cells = 0  # sum of the resident runs
        self.stored_bytes = 0
        self.tip: dict[int, TokenNode] = {}
        self._rows: OrderedDict[TokenNode, None] = OrderedDict()  # nodes with stored logits, oldest first
        self._most_rows = rows
        self._clock = 0
        self._matched: tuple[Sequence[int], int, str, TokenNode, int] | None = None  # the last match

    # ---- looking up

    def root(self, salt: str = "") -> TokenNode:
        """Return the start of all paths of a salt."""
        root = self._roots.get(salt)
        if root is None:
            if len(self._roots) > _EMPTY_ROOTS:
                self._roots = {n: root for n, root in self._roots.items() if root.seqs or root.children}
            root = self._roots[salt] = TokenNode(None, [], 0)
            root.salt = salt
        return root

    def match(self, ids: Sequence[int], salt: str = "") -> tuple[TokenNode, int]:
        """Return the node in which the longest held prefix of ``ids`` ends, and the length of the prefix.

        The last answer is kept until nodes change: all branches at a prompt of 8000 tokens ask for it,
        several times each, and it takes a tenth of a millisecond.
        """
        last = self._matched
        if last is not None and last[0] is ids and last[1] == len(ids) and last[2] == salt:
            return last[3], last[4]
        node: TokenNode = self.root(salt)
        held, length, position = node, 0, 0
        while position < len(ids) and (child := node.children.get(ids[position])) is not None:
            offset = common_prefix(child.tokens, ids, position, len(ids))
            node, position = child, position + offset
            if child.seqs or child.state is not None:
                held, length = child, position
            if offset < len(child.tokens):
                break
        self._matched = ids, len(ids), salt, held, length
        return held, length

    def resumable(self, ids: Sequence[int], salt: str, most: int) -> TokenNode:
        """Return the last node on the path of ``ids`` from which a sequence can be resumed.

        It ends at position ``most`` at the latest; a node is split for that.
        """
        node, length = self.match(ids, salt)
        end = min(length, most)
        if self.whole:
            while node.parent is not None and (
                node.end > end or (node.state is None and not self.holders(node))
            ):
                node = node.parent
            return node
        while node.parent is not None and node.start >= end:
            node = node.parent
        return self.split(node, end - node.start)

    def holders(self, node: TokenNode) -> list[int]:
        """Return the sequences from which another can be forked at the end of ``node``."""
        return [seq for seq in node.seqs if not self.whole or self.tip[seq] is node]

    def logits_after(self, ids: Sequence[int], salt: str = "") -> Any:
        """Return the stored logits after exactly ``ids``, or None."""
        node, length = self.match(ids, salt)
        if node.logits is None or not length == len(ids) == node.end:
            return None
        self._rows.move_to_end(node)
        return node.logits

    def nodes(self) -> Iterator[TokenNode]:
        """Yield all nodes but the roots, each after its ancestors."""
        for root in self._roots.values():
            yield from _below(root)

    # ---- growing

    def advance(self, seq: int, tokens: Sequence[int], written: bool = False) -> Sequence[Merge]:
        """Record that ``tokens`` were evaluated for ``seq``.

        Where the tree has the same tokens in cells already, the sequence moves there: the merges to be done
        are returned.
        """
        node, merges = self.tip[seq], list[Merge]()
        self._matched = None
        while tokens:
            child = node.children.get(tokens[0])
            if child is None:
                self.cells += len(tokens)
                alone = not node.children and len(node.seqs) == 1 and node.parent is not None
                if alone and node.written == written and node.logits is None and node.state is None:
                    node.tokens += tokens
                    node.end += len(tokens)
                else:
                    child = node.children[tokens[0]] = TokenNode(
                        node, [*tokens], node.end + len(tokens), written
                    )
                    self._move_down(seq, child)
                break
            length = common_prefix(child.tokens, tokens, 0, len(tokens))
            child = self.split(child, length)
            if child.seqs:
                merges.append(Merge(next(iter(child.seqs)), node.end, child.end))
            else:
                self.cells += length  # it was only stored
                child.written = written
            self._move_down(seq, child)
            node, tokens = child, tokens[length:]
        return merges

    def attach_sequence(self, seq: int, node: TokenNode) -> None:
        """Record that ``seq``, a new sequence or one that ended above ``node``, ends there."""
        self.tip[seq] = node
        above: TokenNode | None = node
        while above is not None and seq not in above.seqs:
            if not above.seqs and above.parent is not None:
                self.cells += len(above.tokens)
                above.written = False  # its cells lie together now
                self._matched = None
            above.seqs.add(seq)
            above = above.parent

    def split(self, node: TokenNode, offset: int) -> TokenNode:
        """Split ``node`` after ``offset`` tokens; return the node that ends there."""
        parent = node.parent
        if parent is None or offset >= len(node.tokens):
            return node
        self._matched = None
        upper = TokenNode(parent, node.tokens[:offset], node.start + offset, node.written)
        upper.seqs = set(node.seqs)
        upper.last_used = node.last_used
        if not self.whole:
            self.set_state(upper, node.state)
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
        if len(self._rows) > self._most_rows:
            self._rows.popitem(last=False)[0].logits = None

    def mark_used(self, node: TokenNode | None) -> None:
        """Mark the path to ``node`` as just used."""
        self._clock += 1
        while node is not None:
            node.last_used = self._clock
            node = node.parent

    # ---- shrinking

    def truncate(self, seq: int, end: int) -> None:
        """Let ``seq`` end at position ``end``."""
        node = self.tip[seq]
        while node.end > end and node.parent is not None:
            upper = node.parent if node.start >= end else self.split(node, end - node.start)
            self.tip[seq] = upper
            self._remove_from(node, seq)
            node = upper

    def remove_sequence(self, seq: int) -> None:
        """Forget ``seq``, and the nodes that nothing else holds."""
        node = self.tip.pop(seq)
        for above in list(node.path_up()):
            node = above.parent or node
            self._remove_from(above, seq)
        node.seqs.discard(seq)  # the root

    def clear(self) -> None:
        """Forget everything."""
        self._matched = None
        self._roots.clear()
        self.tip.clear()
        self._rows.clear()
        self.cells = self.stored_bytes = 0

    # ---- stored states

    def set_state(self, node: TokenNode, state: NodeState | None) -> None:
        """Let ``state`` be the stored state of ``node``; None for a node that is not stored."""
        self._matched = None
        old, node.state = node.state, state
        if state is not None:
            state.users += 1
            self.stored_bytes += state.size if state.users == 1 else 0
        if old is not None:
            old.users -= 1
            self.stored_bytes -= 0 if old.users else old.size

    def add_state(self, ids: Sequence[int], state: NodeState, salt: str = "") -> None:
        """Let ``state`` be that of the end of ``ids``, unless that is held or what comes before is not."""
        node, length = self.match(ids, salt)
        if self.whole:
            while len(node.tokens) > max(length - node.start, 0) and node.parent is not None:
                node = node.parent  # its state, if it has one, is that of another text
        else:
            if length < state.start or length == len(ids):
                return
            node = self.split(node, length - node.start)
        while node.end < len(ids):
            child = node.children.get(ids[node.end])
            if child is None:
                child = node.children[ids[node.end]] = TokenNode(node, list(ids[node.end :]), len(ids))
            else:  # with a memory of whole states, which may miss those between
                child = self.split(child, common_prefix(child.tokens, ids, node.end, len(ids)))
            node = child
        self.set_state(node, state)
        self.mark_used(node)

    def drop_state(self, node: TokenNode) -> None:
        """Forget the stored state of ``node``; the node goes if no sequence holds it."""
        self.set_state(node, None)
        if not node.seqs:
            self._lose(node)

    # ---- idle sequences

    def count_idle_cells(self, idle: set[int]) -> int:
        """Return how many cells only sequences of ``idle`` hold."""
        seen: set[TokenNode] = set()
        for seq, node in self.tip.items():  # few sequences run, and most of them share most of their path
            if seq not in idle:
                while node not in seen and node.parent is not None:
                    seen.add(node)
                    node = node.parent
        return self.cells - sum(len(node.tokens) for node in seen)

    # ---- inside

    def _move_down(self, seq: int, child: TokenNode) -> None:
        child.seqs.add(seq)
        self.tip[seq] = child

    def _remove_from(self, node: TokenNode, seq: int) -> None:
        node.seqs.discard(seq)
        if not node.seqs:
            self.cells -= len(node.tokens)
            if node.state is None:
                self._lose(node)

    def _lose(self, node: TokenNode) -> None:
        """Forget a node that is neither resident nor stored.

        What is stored below it goes too, as it can no longer be reached, unless it is a whole state.
        """
        self._matched = None
        self._forget_logits(node)
        if not self.whole:
            for below in _below(node):
                self.set_state(below, None)
                self._forget_logits(below)
            node.children.clear()
        while (parent := node.parent) is not None and not (node.seqs or node.children or node.state):
            if parent.children.get(node.tokens[0]) is node:
                del parent.children[node.tokens[0]]
            node = parent

    def _forget_logits(self, node: TokenNode) -> None:
        if node.logits is not None:
            node.logits = None
            self._rows.pop(node, None)


def _below(node: TokenNode) -> Iterator[TokenNode]:
    stack = list(node.children.values())
    while stack:
        child = stack.pop()
        yield child
        stack.extend(child.children.values())


def common_prefix(run: Sequence[int], ids: Sequence[int], start: int, end: int) -> int:
    """Return how many tokens of ``run`` and of ``ids[start:end]`` are equal from their beginnings on."""
    if ids[start : start + len(run)] == run and start + len(run) <= end:  # of whole runs most match
        return len(run)
    low, high = 0, min(len(run), end - start)
    middle = high
    while low < high:
        if list(run[low:middle]) == list(ids[start + low : start + middle]):
            low = middle
        else:
            high = middle - 1
        middle = (low + high + 1) // 2
    return low
