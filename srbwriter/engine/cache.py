"""Sequences and cells: the prefix tree and the native cache, changed together and never apart.

A sequence is live (a branch or a prompt is being run on it), parked (a prefix kept for later) or
free. Parked sequences give way, least recently used first, when cells or ids are needed.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from .holdings import Holdings
from .prefix import SHARED, Match, Node, PrefixTree

log = logging.getLogger(__name__)

PARKED_SPARE = 2048
"""Cells that prefixes beside the last path may hold, at least; as many as that path where it is longer.

Attention reads every cell up to the highest in use, parked or not, at each step: a cache full of
prefixes that nobody runs makes a small model five to twenty times slower on a CPU.
"""


class Memory(Protocol):
    """What the cache asks of a native context."""

    cells: int
    sequences: int

    def copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None: ...
    def remove(self, seq: int, start: int = -1, end: int = -1) -> None: ...
    def clear(self) -> None: ...


class Lease(NamedTuple):
    """A live sequence that holds the first ``length`` of the ids asked for."""

    seq: int
    length: int


class Cache:
    """``partial`` says that tails of sequences can be dropped (attention memories)."""

    def __init__(self, memory: Memory, *, partial: bool, parked_fraction: float, logits_rows: int) -> None:
        self.memory = memory
        self.tree = PrefixTree(logits_rows)
        self.partial = partial
        self._holdings = Holdings()  # kept where the memory cannot be cut; the tree counts the others' cells
        self.parked: set[int] = set()
        self.pins: dict[str, tuple[int, ...]] = {}
        self._free = list(range(memory.sequences - 1, -1, -1))
        self._parked_cap = int(memory.cells * parked_fraction)

    @property
    def used_sequences(self) -> int:
        return self.memory.sequences - len(self._free)

    @property
    def used_cells(self) -> int:
        """Cells that are not free."""
        return self.tree.cells if self.partial else self._holdings.cells

    @property
    def live_cells(self) -> int:
        """Cells that running sequences hold; all others can be had."""
        return self.used_cells - self._idle_cells()

    # ---- leases

    def resident(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> int:
        """How many of ``ids`` can be resumed without evaluating them."""
        return self._find(ids, limit, space).length

    def lease(self, ids: Sequence[int], limit: int | None = None, space: int = SHARED) -> Lease | None:
        """A live sequence on the longest resident prefix of ``ids``; None when no id is to be had.

        Raises NativeError when llama.cpp refuses.
        """
        found = self._find(ids, limit, space)
        claimed = self._claim(found) if self.partial else None
        if claimed is not None:
            return Lease(claimed, found.length)
        if not self._free:
            self._guard(found)
            if not self.free_sequence(self._covering(found)):
                last = self._claim(found)  # an anchor is kept for others while there are ids
                return None if last is None else Lease(last, found.length)
            found = self._find(ids, limit, space)  # the tree may have changed under it
        seq = self._free.pop()
        self._fork(seq, found)
        return Lease(seq, found.length)

    def has_room_for(self, ids: Sequence[int], limit: int) -> bool:
        """Whether a lease and one token more would take nothing from any parked prefix."""
        if self.used_cells >= self.memory.cells:
            return False
        found = self._find(ids, limit)
        return bool(self._free) or (self.partial and self._claimable(found) is not None)

    def advance(self, seqs: Sequence[int], tokens: Sequence[int]) -> None:
        """``tokens`` have been decoded for ``seqs``. Cells evaluated twice are given back if they can be."""
        merges = self.tree.advance(seqs, tokens)
        if not self.partial:
            self._holdings.grow(seqs, len(tokens))
            return
        for merge in merges:
            for seq in seqs:
                self.memory.remove(seq, merge.start, merge.end)
                self.memory.copy(merge.source, seq, merge.start, merge.end)

    def store_logits(self, seq: int, row: NDArray[np.float32]) -> None:
        """Keep a copy of ``row`` as what follows the tip of ``seq``."""
        self.tree.store_logits(seq, np.array(row, np.float32))

    def logits_after(self, ids: Sequence[int], space: int = SHARED) -> NDArray[np.float32] | None:
        return self.tree.logits_after(ids, space)

    def rewind(self, seq: int, end: int) -> bool:
        """Drop what ``seq`` holds from position ``end`` on; False where the memory cannot."""
        if not self.partial:
            return False
        if self.tree.tip[seq].end > end:
            self.memory.remove(seq, end)
            self.tree.truncate(seq, end)
        return True

    def park(self, seq: int) -> None:
        """Nobody runs ``seq`` now; keep what only it holds until room is needed."""
        if self._redundant(seq):
            self.drop(seq)
            return
        self.parked.add(seq)
        self.tree.touch(seq)
        path = self.tree.tip[seq].end
        most = min(self._parked_cap, path + max(path, PARKED_SPARE))
        while self._idle_cells() > most and self.evict(spared=seq):
            pass  # not what was just parked: a prompt above the cap would be read again and again

    def forget(self, ids: Sequence[int], start: int, space: int = SHARED) -> None:
        """Give back what parked sequences alone hold of ``ids`` from position ``start`` on."""
        node: Node | None = self.tree.match(ids, None, space).node
        while node is not None and node.end > start:
            above = node.parent
            for seq in [seq for seq in node.tips if seq in self.parked]:
                if self.rewind(seq, start):
                    self.park(seq)
                else:
                    self.drop(seq)
            node = above

    def drop(self, seq: int) -> None:
        """Give ``seq`` and everything that only it holds back."""
        self.memory.remove(seq)
        self.tree.release(seq)
        if not self.partial:
            self._holdings.release(seq)
        self.parked.discard(seq)
        self._free.append(seq)

    def clear(self) -> None:
        """Forget everything; no sequence may be live."""
        self.memory.clear()
        self.tree.clear()
        self._holdings.clear()
        self.parked.clear()
        self._free = list(range(self.memory.sequences - 1, -1, -1))

    # ---- room

    def make_room(self, cells: int) -> bool:
        """Evict until ``cells`` more fit."""
        while self.used_cells + cells > self.memory.cells:
            if not self.evict():
                return False
        return True

    def evict(self, spared: int | None = None) -> bool:
        """Shorten the parked sequence that was used longest ago by one run; False if none is left."""
        seq = self.tree.oldest(self.parked - {spared}, self._pinned())
        if seq is None:
            return False
        node = self.tree.tip[seq]
        parent = node.parent
        if self.partial and parent is not None and parent.parent is not None and len(parent.seqs) == 1:
            self.memory.remove(seq, parent.end)
            self.tree.truncate(seq, parent.end)
        else:
            self.drop(seq)
        return True

    def free_sequence(self, spared: Iterable[int] = ()) -> bool:
        """Release a whole parked sequence for its id."""
        seq = self.tree.oldest(self.parked - set(spared), self._pinned())
        if seq is None:
            return False
        self.drop(seq)
        return True

    # ---- inside

    def _find(self, ids: Sequence[int], limit: int | None, space: int = SHARED) -> Match:
        find = self.tree.match if self.partial else self.tree.anchored
        return find(ids, limit, space)

    def _fork(self, seq: int, found: Match) -> None:
        """Make ``seq`` a new sequence that ends at a match."""
        source = self.tree.fork(seq, found)
        if self.partial:
            if source is not None:
                self.memory.copy(source, seq, 0, found.length)
            return
        anchor = source if found.length else None  # every sequence passes the root, none needs to end there
        self._holdings.fork(anchor, seq)
        if anchor is not None:
            self.memory.copy(anchor, seq)

    def _claim(self, found: Match) -> int | None:
        """A parked sequence that ends exactly at the match can be run as it is."""
        seq = self._claimable(found)
        if seq is not None:
            self.parked.discard(seq)
            self.tree.touch(seq)
        return seq

    def _claimable(self, found: Match) -> int | None:
        if found.length == 0 or found.offset != len(found.node.tokens):
            return None
        return next((seq for seq in found.node.tips if seq in self.parked), None)

    def _covering(self, found: Match) -> tuple[int, ...]:
        """One sequence that must survive for the match to stay resident."""
        holders = found.node.seqs if self.partial else found.node.tips
        live = next((s for s in holders if s not in self.parked), None)
        return () if live is not None else tuple(holders)[:1]

    def _guard(self, found: Match) -> None:
        for seq in self._covering(found):
            self.tree.touch(seq)

    def _redundant(self, seq: int) -> bool:
        """Whether nothing would be lost with a sequence that is not run any more."""
        if self.partial:
            return self.tree.redundant(seq)
        node = self.tree.tip[seq]
        return node.parent is None or any(other in self.parked for other in node.tips - {seq})

    def _idle_cells(self) -> int:
        return (self.tree if self.partial else self._holdings).idle_cells(self.parked)

    def _pinned(self) -> list[Node]:
        return [self.tree.match(ids).node for ids in self.pins.values()]
