"""The two kinds of model memory, behind one set of methods.

The memory of an attention model, with or without sliding layers, has cells that are shared and dropped one by
one: a sequence can be forked, cut and resumed after any token. A recurrent or hybrid memory has one state for
each sequence: it can only be forked and resumed where a sequence ends or a state was stored. The kind is
chosen once, by :func:`memory_for`; the rest of the engine calls these methods and never asks for the kind.
A memory changes the native cells and the tree of tokens together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .tree import Demand, KVBlock, Namespace, Node, SnapshotTree, TokenTree

BLOCK = 128
"""Tokens of a stored block, at most. Copying a block takes some 25 ms with a model of 135M in the slowest
case, where the cells of several branches alternate."""
DEVICE_BLOCK = 64
"""Tokens of a block where the cells are a GPU's: 2 to 4 ms with a model of 8B, whose cells lie in a row."""
IDLE_CELLS = 32
"""Idle cells that may stay while a processor computes. With 256 of them, which is the portion that llama.cpp
reads, a step of eight branches takes a tenth longer."""
SCATTERED_CELLS = 512
"""Free cells below the highest in use, at most, before the cells in use are moved together."""
REUSED_CELLS = 512
"""Cells from which on an idle sequence is kept although others hold the same cells: a fork takes llama.cpp
50 ns a cell, and dropping a sequence as long. For 64 branches at 8000 tokens that is twice 25 ms."""

Reason = Literal["logits", "damaged", "rollback", "asked", "no room", ""]
"""Why a token is evaluated that some tier holds: for the logits after it; because its state could not be read
back; in a memory that cannot be cut; at the caller's wish; because there was no room for a copy. In tests, a
token without a reason is an error."""


class NativeMemory(Protocol):
    """The part of a native context that a memory uses."""

    cells: int
    sequences: int
    cuttable: bool
    window: int
    bytes_per_token: float

    def copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None: ...
    def remove(self, seq: int, start: int = -1, end: int = -1) -> None: ...
    def clear(self) -> None: ...
    def compact(self) -> None: ...
    def save_sequence(self, seq: int) -> NDArray[np.uint8]: ...
    def save_range(self, seq: int, start: int, end: int) -> NDArray[np.uint8]: ...
    def restore_sequence(self, data: NDArray[np.uint8], end: int, seq: int) -> bool: ...
    def restore_range(
        self, data: NDArray[np.uint8], start: int, end: int, seq: int, first: int, last: int
    ) -> bool: ...


class Memory:
    """The memory of an attention model: cells that are shared and dropped one by one.

    Attributes:
        idle: sequences that do not run and are kept for later.
        can_rewind: whether the end of a sequence can be dropped.
        most_idle_cells: how many idle cells may stay while something runs.
        repeat_reason: the default reason for evaluating held tokens again.
    """

    can_rewind = True
    most_idle_cells: float = IDLE_CELLS
    repeat_reason: Reason = ""

    def __init__(self, native: NativeMemory, tree: TokenTree, block: int = BLOCK) -> None:
        self.native, self.tree = native, tree
        self.idle: set[int] = set()
        self._peak = 0  # most cells in use since they were moved together
        window = native.window  # a sliding layer is saved whole only between two multiples of its window
        self._block = block if not window or window % block == 0 else window

    @property
    def used_cells(self) -> int:
        """Cells that are not free."""
        return self.tree.cells

    def count_idle_cells(self) -> int:
        """Return how many cells only idle sequences hold."""
        return self.tree.count_idle_cells(self.idle)

    def clear(self) -> None:
        """Forget all sequences and the whole tree."""
        self.native.clear()
        self.tree.clear()
        self.idle.clear()
        self._peak = 0

    # ---- where sequences resume

    def resume_path(self, goal: Node, most: int) -> tuple[Node, list[Node]]:
        """Return where a sequence for ``goal`` begins in cells, and the stored nodes to restore from there.

        Both end at position ``most`` at the latest. The last stored node comes first.
        """
        node = self.tree.longest_prefix(goal, most)
        if node.block is None or self.tree.holders(node):
            return node, []
        return self._stored_path(node)

    def _stored_path(self, node: Node) -> tuple[Node, list[Node]]:
        """Return what :meth:`resume_path` does for a stored ``node``."""
        stored = [node]
        while (parent := stored[-1].parent) is not None and parent.parent is not None and not parent.seqs:
            stored.append(parent)
        assert parent is not None, "a root is not stored"
        return parent, stored

    def find_progress(self, goal: Node, excused: int) -> Node:
        """Return the last node on the path to ``goal`` that a running demand for ``goal`` could join.

        States stored up to position ``excused`` could not be restored, and do not count.
        """
        node = goal
        while node.parent is not None and not node.seqs:
            if node.block is not None and min(node.end, goal.end - 1) > excused:
                break
            node = node.parent
        return node

    def can_reuse(self, node: Node) -> bool:
        """Whether :meth:`reuse_sequence` would find an idle sequence."""
        return idle_tip(node, self.idle) is not None or self._nearest_idle(node) is not None

    def reuse_sequence(self, node: Node, exact: bool) -> int | None:
        """Make an idle sequence end at ``node``, and return it; None if no idle sequence fits.

        ``exact``: take only one that ends there already.
        """
        seq, above = idle_tip(node, self.idle), node
        if seq is None:
            found = None if exact else self._nearest_idle(node)
            if found is None:
                return None
            seq, above = found
            source = next(iter(node.seqs))
            self.rewind(seq, above.end)
            if above is not node:
                self.native.copy(source, seq, above.end, node.end)
                self.tree.attach_sequence(seq, node)
        self.idle.discard(seq)
        return seq

    def _nearest_idle(self, node: Node) -> tuple[int, Node] | None:
        """Return the idle sequence that shares most of the path to ``node``, and the node where it parts.

        What that sequence holds beyond the node is held by others, or stored.
        """
        if not node.seqs or not self.is_worth_keeping(node):
            return None
        known: set[int] = set()
        for above in node.path_up():
            if 2 * above.end < node.end:
                return None
            if len(above.seqs) > len(known):
                for seq in (above.seqs & self.idle) - known:
                    if self._is_held_below(seq, above):
                        return seq, above
                known = above.seqs
        return None

    def _is_held_below(self, seq: int, above: Node) -> bool:
        """Whether what ``seq`` holds below ``above`` is held by others, or stored."""
        node = self.tree.tip[seq]
        while node is not above:
            if len(node.seqs) == 1 and node.block is None:
                return False
            assert node.parent is not None
            node = node.parent
        return True

    def ends_portion(self, node: Node) -> bool:
        """Whether a sequence that is evaluated has to stop after ``node``, so that others can fork there."""
        return False

    # ---- changes

    def fork(self, seq: int, node: Node) -> None:
        """Make ``seq`` a new sequence that ends at a resident node."""
        source = self.tree.add_sequence(seq, node)
        if source is not None:
            self.native.copy(source, seq, 0, node.end)

    def attach_sequence(self, seq: int, node: Node) -> None:
        """Record that the state of ``node`` was restored for ``seq``."""
        self.tree.attach_sequence(seq, node)
        self._peak = max(self._peak, self.used_cells)

    def advance(self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace) -> int:
        """Record that ``tokens`` were decoded for ``seqs``; return how many of them were held already."""
        merges, known = self.tree.advance(seqs, tokens, namespace)
        if self.tree.cells > self._peak:
            self._peak = self.tree.cells
        for source, start, end in merges:
            for seq in seqs:
                self.native.remove(seq, start, end)
                self.native.copy(source, seq, start, end)
        return known

    def advance_single(self, demands: Sequence[Demand]) -> Sequence[Demand]:
        """Record a decoded token for each of ``demands``; return those that need :meth:`advance`."""
        advance = self.tree.advance_single
        others = [demand for demand in demands if not advance(demand)]
        if self.tree.cells > self._peak:
            self._peak = self.tree.cells
        return others

    def rewind(self, seq: int, end: int) -> bool:
        """Drop what ``seq`` holds from position ``end`` on; False where the memory cannot do that."""
        if self.tree.tip[seq].end > end:
            self.native.remove(seq, end)
            self.tree.truncate(seq, end)
        return True

    def release(self, seq: int) -> None:
        """Give back ``seq`` and the cells that only it holds."""
        self.native.remove(seq)
        self.tree.remove_sequence(seq)
        self.idle.discard(seq)

    def compact(self) -> None:
        """Move the cells in use together if they lie scattered and that gains anything."""
        if self._peak - self.used_cells > SCATTERED_CELLS + self.used_cells // 8:
            self.native.compact()
            self._peak = self.used_cells

    # ---- what may go

    def is_redundant(self, seq: int) -> bool:
        """Whether ``seq`` can be dropped without losing a state, if no demand runs it."""
        node = self.tree.tip[seq]
        return node.parent is None or len(node.seqs) > 1

    def is_worth_keeping(self, node: Node) -> bool:
        """Whether an idle sequence that ends at ``node`` is kept although others hold the same cells."""
        return node.end >= REUSED_CELLS

    def is_stored(self, seq: int) -> bool:
        """Whether everything that only ``seq`` holds can be restored."""
        return all(n.block is not None for n in self.tree.tip[seq].path_up() if len(n.seqs) == 1)

    def shorten(self, seq: int) -> bool:
        """Drop the last node of an idle sequence; False where the whole sequence has to go."""
        node = self.tree.tip[seq]
        parent = node.parent
        if parent is None or parent.parent is None:
            return False
        if len(parent.seqs) > 1:
            shared = len(node.seqs) > 1 and parent.seqs <= self.idle
            if shared or not self.is_worth_keeping(parent):
                return False
        return self.rewind(seq, parent.end)

    def parted_nodes(self, seq: int) -> list[Node]:
        """Return the nodes of ``seq`` since it parted from other sequences in cells, the last first."""
        path = list(self.tree.tip[seq].path_up())
        for number, node in enumerate(path[:-1], 1):
            if any(other.seqs for other in path[number].children.values() if other is not node):
                return path[:number]
        return []

    # ---- stored states

    def lies_apart(self, node: Node) -> bool:
        """Whether most cells of ``node`` have others' between them, as those of branches written together."""
        return 2 * node.apart > len(node.tokens)

    def split_blocks(self, node: Node) -> Iterator[Node]:
        """Split a resident node into nodes of one stored block each, and yield them."""
        while (boundary := (node.start // self._block + 1) * self._block) < node.end:
            yield self.tree.split(node, boundary - node.start)
        yield node

    def save_block(self, node: Node) -> KVBlock:
        """Copy the state of a node of :meth:`split_blocks` out of the cells."""
        data = self.native.save_range(next(iter(node.seqs)), node.start, node.end)
        return KVBlock(node.start, node.tokens, data, int(data.size))

    def restore_block(self, seq: int, node: Node, data: NDArray[np.uint8]) -> int:
        """Copy the stored state of ``node`` into cells for ``seq``; return its tokens, or 0 if that fails."""
        block = node.block
        assert block is not None
        restored = self.native.restore_range(data, block.start, block.end, seq, node.start, node.end)
        return len(node.tokens) if restored else 0


class RecurrentMemory(Memory):
    """The memory of a recurrent or hybrid model: one state for each sequence.

    An idle sequence stays at the end of its text as long as there are ids, so that others can fork there.
    """

    can_rewind = False
    most_idle_cells = float("inf")
    repeat_reason = "rollback"

    def __init__(self, native: NativeMemory, tree: TokenTree) -> None:
        super().__init__(native, tree)
        self._cells = SharedCells()

    @property
    def used_cells(self) -> int:
        return self._cells.cells

    def count_idle_cells(self) -> int:
        return self._cells.count_idle_cells(self.idle)

    def clear(self) -> None:
        super().clear()
        self._cells.clear()

    def _stored_path(self, node: Node) -> tuple[Node, list[Node]]:
        return self.tree.root(self.tree.namespace_of(node)), [node]

    def find_progress(self, goal: Node, excused: int) -> Node:
        node = goal.parent  # after the goal itself it is too late for its logits
        assert node is not None
        while node.parent is not None and not node.tips:
            node = node.parent
        return node

    def can_reuse(self, node: Node) -> bool:
        return False

    def reuse_sequence(self, node: Node, exact: bool) -> int | None:
        return None

    def ends_portion(self, node: Node) -> bool:
        return len(node.children) > 1

    def fork(self, seq: int, node: Node) -> None:
        source = self.tree.add_sequence(seq, node)
        if not node.end:  # every sequence passes the root, none needs to end there
            source = None
        self._cells.fork(source, seq)
        if source is not None:
            self.native.copy(source, seq)

    def attach_sequence(self, seq: int, node: Node) -> None:
        before = self.tree.tip[seq].end
        self.tree.attach_sequence(seq, node)
        self._cells.grow((seq,), node.end - before)

    def advance_single(self, demands: Sequence[Demand]) -> Sequence[Demand]:
        return demands

    def advance(self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace) -> int:
        known = self.tree.advance(seqs, tokens, namespace).known
        self._cells.grow(seqs, len(tokens))
        return known

    def release(self, seq: int) -> None:
        super().release(seq)
        self._cells.release(seq)

    def rewind(self, seq: int, end: int) -> bool:
        return False

    def compact(self) -> None:
        """No-op: a step reads states in any cell."""

    def is_redundant(self, seq: int) -> bool:
        node = self.tree.tip[seq]
        return node.parent is None or any(other in self.idle for other in node.tips - {seq})

    def is_worth_keeping(self, node: Node) -> bool:
        return False

    def is_stored(self, seq: int) -> bool:
        return False

    def shorten(self, seq: int) -> bool:
        return False

    def parted_nodes(self, seq: int) -> list[Node]:
        return []

    def lies_apart(self, node: Node) -> bool:
        return False  # its state is one piece of each tensor

    def split_blocks(self, node: Node) -> Iterator[Node]:
        yield node

    def save_block(self, node: Node) -> KVBlock:
        data = self.native.save_sequence(next(iter(node.tips)))
        return KVBlock(0, node.token_ids(), data, int(data.size))

    def restore_block(self, seq: int, node: Node, data: NDArray[np.uint8]) -> int:
        return node.end if self.native.restore_sequence(data, node.end, seq) else 0


def memory_for(native: NativeMemory, logits_rows: int, on_device: bool) -> Memory:
    """Return the memory of a native context. ``logits_rows`` rows of logits are kept in its tree."""
    if native.cuttable:
        return Memory(native, TokenTree(logits_rows), DEVICE_BLOCK if on_device else BLOCK)
    return RecurrentMemory(native, SnapshotTree(logits_rows))


def idle_tip(node: Node, idle: set[int]) -> int | None:
    """Return an idle sequence that ends at ``node``, but for the root."""
    return None if node.parent is None else next((seq for seq in node.tips if seq in idle), None)


@dataclass(slots=True)
class _Stretch:
    """Cells that were evaluated in a row, and the sequences that hold all of them."""

    holders: set[int]
    length: int


class SharedCells:
    """Counts the cells in use of a memory whose cells are shared by forking whole sequences only.

    What two sequences evaluated each on its own is in cells twice, although the tree has it once.
    """

    def __init__(self) -> None:
        self.cells = 0
        self._held: dict[int, list[_Stretch]] = {}

    def fork(self, source: int | None, target: int) -> None:
        """Let ``target``, a new sequence, share what ``source`` holds."""
        shared = [] if source is None else self._held[source]
        for stretch in shared:
            stretch.holders.add(target)
        self._held[target] = list(shared)

    def grow(self, seqs: Sequence[int], cells: int) -> None:
        """Count ``cells`` more that were evaluated once for all of ``seqs``."""
        self.cells += cells
        last = self._held[seqs[0]][-1:]
        if last and last[0].holders == set(seqs):
            last[0].length += cells
            return
        new = _Stretch(set(seqs), cells)
        for seq in seqs:
            self._held[seq].append(new)

    def release(self, seq: int) -> None:
        """Forget ``seq``, and the cells that no other sequence holds."""
        for stretch in self._held.pop(seq):
            stretch.holders.discard(seq)
            if not stretch.holders:
                self.cells -= stretch.length

    def count_idle_cells(self, idle: set[int]) -> int:
        """Return how many cells only sequences of ``idle`` hold."""
        stretches = {id(s): s for seq in idle for s in self._held[seq] if s.holders <= idle}
        return sum(stretch.length for stretch in stretches.values())

    def clear(self) -> None:
        """Forget all sequences."""
        self._held.clear()
        self.cells = 0
