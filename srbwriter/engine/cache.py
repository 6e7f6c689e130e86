"""Sequences and cells: the tree of tokens and the native cache, changed together and never apart.

A sequence is live (a branch or a prompt is being run on it), parked (a prefix kept for later) or
free. Parked sequences give way, least recently used first, when cells or ids are needed, and as soon
as something runs that they would slow: attention reads every cell up to the highest in use, parked or
not, at each step. What gives way goes to host memory, and comes back by a copy.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .disk import DiskCache, Part
from .memory import States, Storage, ids_through
from .tree import SHARED, Demand, Match, Namespace, Node, TokenTree
from .types import Priority


class _Stretch:
    """Cells that were evaluated in a row, and the sequences that hold all of them."""

    __slots__ = ("holders", "length")

    def __init__(self, holders: Iterable[int], length: int) -> None:
        self.holders = set(holders)
        self.length = length


class Cells:
    """Account of the cells in use of a memory that cannot be cut.

    There cells are shared by forking a whole sequence and in no other way: what two sequences evaluated each
    on its own is there twice, although the tree knows it once.
    """

    def __init__(self) -> None:
        self.cells = 0
        self._held: dict[int, list[_Stretch]] = {}

    def fork(self, source: int | None, target: int) -> None:
        """``target`` is new, and shares what ``source`` holds."""
        shared = [] if source is None else self._held[source]
        for stretch in shared:
            stretch.holders.add(target)
        self._held[target] = list(shared)

    def grow(self, seqs: Sequence[int], cells: int) -> None:
        """As many more ``cells`` were evaluated once for all of ``seqs``."""
        self.cells += cells
        last = self._held[seqs[0]][-1:]
        if last and last[0].holders == set(seqs):
            last[0].length += cells
            return
        new = _Stretch(seqs, cells)
        for seq in seqs:
            self._held[seq].append(new)

    def release(self, seq: int) -> None:
        """``seq`` is gone; so are the cells that nobody else holds."""
        for stretch in self._held.pop(seq):
            stretch.holders.discard(seq)
            if not stretch.holders:
                self.cells -= stretch.length

    def idle_cells(self, idle: Iterable[int]) -> int:
        """Cells that only sequences of ``idle`` hold."""
        parked = set(idle)
        stretches = {id(s): s for seq in parked for s in self._held[seq] if s.holders <= parked}
        return sum(stretch.length for stretch in stretches.values())

    def clear(self) -> None:
        self._held.clear()
        self.cells = 0


log = logging.getLogger(__name__)

IDLE_CELLS = 32
"""Cells that nobody runs and that may stay while something runs. For 256 of them, which is the portion that
llama.cpp reads, a step of eight branches takes a tenth longer."""
SCATTERED_CELLS = 512
"""Free cells below the highest in use, at most, before the others are moved together."""

COPYING_SECONDS = 0.004
"""What leaves the cells is copied for no longer than this before a step; the rest leaves before later ones.
Cells of branches that were written together lie in turns, and copying those takes longer than a step."""

SPARE_CELLS = 512
"""Cells that others hold too, from which on a sequence is kept although nothing would be lost with it: a fork
takes llama.cpp 50 ns a cell, and dropping one as long. Where 64 branches go on at 8000 tokens that is 25 ms,
and 25 ms again."""

WRITTEN_DOWN = 64
"""Paths that are written to disk when nothing runs, the newest first."""

OPEN_NAMESPACES = 1000
"""Namespaces of which is remembered that the disk was looked through for them."""

Reason = Literal["logits", "damaged", "rollback", "asked", "no room", ""]
"""Why a token is evaluated that some tier holds: for what the model says after it; because it could not be
read back; in a memory that cannot be cut; at the caller's wish; because the copy found no room. There should
be none without a name."""


class Memory(States, Protocol):
    """What the cache asks of a native context."""

    cells: int
    sequences: int

    def copy(self, source: int, target: int, start: int = -1, end: int = -1) -> None: ...
    def remove(self, seq: int, start: int = -1, end: int = -1) -> None: ...
    def clear(self) -> None: ...
    def compact(self) -> None: ...


class Cache:
    """Cells, and what lies beneath them.

    Args:
        logits_rows: rows of logits kept, so that forking evaluates nothing.
        host_bytes: of host memory for what is not in cells.
        disk: for what is to outlive the program.
        screen: paths that somebody sees, with their namespaces; they leave host memory last.
        evaluated_with: names what a namespace is evaluated with, beside the model.
    """

    def __init__(
        self, memory: Memory, *, logits_rows: int, host_bytes: int = 0, disk: DiskCache | None = None,
        screen: Callable[[], Iterable[tuple[Sequence[int], Namespace]]] = tuple,
        evaluated_with: Callable[[Namespace], str] = lambda namespace: "",
    ) -> None:  # fmt: skip
        self.memory = memory
        self.partial = memory.cuttable  # tails of sequences can be dropped
        self.tree = TokenTree(logits_rows, memory.cuttable)
        self.storage = Storage(
            memory,
            self.tree,
            budget=host_bytes,
            disk=disk,
            protected=self._protected,
            evaluated_with=evaluated_with,
        )
        self.screen = screen
        self._cells = Cells()  # kept where the memory cannot be cut; the tree counts the others' cells
        self.parked: set[int] = set()
        self.pins: dict[str, tuple[Sequence[int], Namespace]] = {}
        self._free = list(range(memory.sequences - 1, -1, -1))
        self._excuses: dict[int, tuple[int, Reason]] = {}  # of a live sequence, up to a position
        self._peak = 0  # cells in use at most since they were moved together
        self.clears = 0  # times that everything was forgotten
        self._changes = 0  # how often anything was parked, leased, stored or given back
        self._settled = self._gathered = -1  # after so many of them there was nothing to move away
        self._open: set[tuple[Namespace, Sequence[int]]] = set()  # what the disk holds of them is known
        self.open(SHARED)

    @property
    def used_sequences(self) -> int:
        return self.memory.sequences - len(self._free)

    @property
    def used_cells(self) -> int:
        """Cells that are not free."""
        return self.tree.cells if self.partial else self._cells.cells

    @property
    def live_cells(self) -> int:
        """Cells that running sequences hold; all others can be had."""
        return self.used_cells - self._idle_cells()

    def open(self, namespace: Namespace, common: Sequence[int] = ()) -> None:
        """Something of a namespace is wanted: it is known from now on what the disk holds of it.

        ``common`` are the tokens before its start.
        """
        if namespace.salt:
            self.open(Namespace(namespace.root))
        known = namespace, tuple(common)
        if self.keeps(namespace) and known not in self._open:
            if len(self._open) >= OPEN_NAMESPACES:
                self._open.clear()  # they are looked through again; nothing is kept twice
            self._open.add(known)
            self.storage.from_disk(namespace, common)

    # ---- leases

    def held(self, ids: Sequence[int], limit: int | None = None, namespace: Namespace = SHARED) -> int:
        """How many of ``ids`` can be resumed without evaluating them, from whatever tier."""
        return self._find(ids, limit, namespace).length

    def standing(self, node: Node) -> Node:
        """The last node on the way to ``node`` that can be gone on from: itself, where it is held."""
        while node.parent is not None and node.piece is None and not self._holders(node):
            node = node.parent
        return node

    def keeps(self, namespace: Namespace) -> bool:
        """Whether text of a namespace is kept outside the cells; that of a request alone is not."""
        return bool(self.storage.budget) and namespace.root <= SHARED.root

    def lacks(self, demand: Demand, most: int) -> int:
        """Cells that the way of ``demand`` takes beyond those in use; ``most`` of its tokens may be held."""
        goal = demand.node
        assert goal is not None
        if not self.partial:
            anchor = self._anchor(goal, most)
            return goal.end - (anchor.end if anchor.tips else 0)
        node: Node = goal
        while node.parent is not None and not node.seqs:
            node = node.parent
        return goal.end - min(node.end, most)

    def lease(self, demand: Demand, most: int) -> bool:
        """Put ``demand`` on a sequence where its path is held, ``most`` tokens along it at the farthest.

        What is stored of it is brought back into cells, as far as they go. False when no id is to be had.
        Raises NativeError when llama.cpp refuses.
        """
        goal = demand.node
        assert goal is not None
        start, stored = self._start(goal, most)
        ahead = demand.urgency is Priority.AHEAD
        used = ahead and start.last_used > 0  # then the sequence that ends there stays as it is
        seq = self._claim(start, ahead) if self.partial and not used else None
        if seq is None and self.partial and not ahead:
            seq = self._bend(start)
        if seq is None and not self._free:
            covering = self._covering(start)
            for one in () if ahead else covering:
                self.tree.touch(self.tree.tip[one])
            if self.free_sequence(covering, unused=ahead):
                start, stored = self._start(goal, most)  # the tree may have changed under it
            elif ahead or (seq := self._claim(start)) is None:  # an anchor is kept while there are ids
                return False
        if seq is None:
            seq = self._free.pop()
        self._ahead(seq, ahead)
        if seq not in self.tree.tip:  # it is a new one
            self._fork(seq, start)
        if stored:
            self._bring_back(seq, stored)
        demand.seq = seq
        return True

    def _ahead(self, seq: int, ahead: bool) -> None:
        """What ``seq`` is for: to write ahead, or what somebody wants."""
        (self.tree.ahead.add if ahead else self.tree.ahead.discard)(seq)

    def use(self, demand: Demand, path: Sequence[int]) -> None:
        """What was written ahead for ``demand``, which is at the end of ``path``, is wanted now."""
        self._ahead(demand.seq, False)
        self.tree.touch(self.tree.match(path, None, demand.namespace).node)

    def catch_up(self, demand: Demand) -> None:
        """Let ``demand`` go on where others have got to on its way, since it began; they may have left."""
        tip, goal = self.tree.tip[demand.seq], demand.node
        assert goal is not None
        excused, _ = self._excuses.get(demand.seq, (0, ""))  # what is stored up to there it evaluates
        node = goal if self.partial else goal.parent
        while node is not None and node is not tip and not self._holders(node):
            if self.partial and node.piece is not None and min(node.end, goal.end - 1) > excused:
                break
            node = node.parent
        if node is not None and min(node.end, goal.end - 1) > tip.end:
            self.release(demand)
            leased = self.lease(demand, goal.end - 1)
            assert leased, "the sequence that was just given back can be had"

    def release(self, demand: Demand) -> None:
        """Take ``demand`` off its sequence, which stays as long as room allows."""
        seq, demand.seq = demand.seq, -1
        if seq >= 0:
            self.park(seq)

    def has_id_for(self, demand: Demand, most: int) -> bool:
        """Whether a lease would take its id from no parked prefix."""
        assert demand.node is not None
        if self._free:
            return True
        node = self._anchor(demand.node, most)
        return self.partial and (self._claimable(node) is not None or self._spare_for(node) is not None)

    def advance(
        self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace = SHARED, *,
        answered: bool = True, reason: Reason = "",
    ) -> None:  # fmt: skip
        """``tokens`` have been decoded for ``seqs``. Cells evaluated twice are given back if they can be.

        ``answered``: what the model says after the last of them was wanted. ``reason`` is why the others were
        decoded, if the cache held them already.
        """
        start = self.tree.tip[seqs[0]].end
        merges, known = self.tree.advance(seqs, tokens, namespace)
        if self.used_cells > self._peak:
            self._peak = self.used_cells
        if known:
            self._account(seqs[0], start, known, answered and known == len(tokens), reason)
        if not self.partial:
            self._cells.grow(seqs, len(tokens))
            return
        for merge in merges:
            for seq in seqs:
                self.memory.remove(seq, merge.start, merge.end)
                self.memory.copy(merge.source, seq, merge.start, merge.end)

    def _account(self, seq: int, start: int, known: int, answered: bool, reason: Reason) -> None:
        """``known`` of the tokens just decoded were held: why were they evaluated?"""
        until, excuse = self._excuses.get(seq, (0, ""))
        excused = max(0, min(known, until - start))
        last = 1 if answered and known > excused else 0
        if not reason and not self.partial:
            reason = "rollback"
        for why, tokens in ((excuse, excused), ("logits", last), (reason, known - excused - last)):
            if tokens:
                self.storage.traffic.count(why, tokens)

    def store_logits(self, seq: int, row: NDArray[np.float32], awaited: bool = False) -> None:
        """Keep a copy of ``row`` as what follows the tip of ``seq``; see :meth:`TokenTree.store_logits`."""
        self.tree.store_logits(seq, np.array(row, np.float32), awaited)

    def logits_after(self, ids: Sequence[int], namespace: Namespace = SHARED) -> NDArray[np.float32] | None:
        return self.tree.logits_after(ids, namespace)

    def rewind(self, seq: int, end: int) -> bool:
        """Drop what ``seq`` holds from position ``end`` on; False where the memory cannot."""
        if not self.partial:
            return False
        if self.tree.tip[seq].end > end:
            self.memory.remove(seq, end)
            self.tree.truncate(seq, end)
            self._changes += 1
        return True

    def park(self, seq: int) -> None:
        """Nobody runs ``seq`` now; what only it holds is kept, in whatever tier."""
        self._excuses.pop(seq, None)
        self._changes += 1
        if self._redundant(seq) and not (self.partial and self._worth_keeping(self.tree.tip[seq])):
            self.drop(seq)
            return
        self.parked.add(seq)
        if seq not in self.tree.ahead:
            self.tree.touch(self.tree.tip[seq])

    def used(self, ids: Sequence[int], namespace: Namespace = SHARED) -> int:
        """How many of ``ids`` are held because somebody wanted them, and not only written ahead."""
        node = self.tree.match(ids, None, namespace).node
        while node.parent is not None and not node.last_used:
            node = node.parent
        return node.end

    def forget(self, ids: Sequence[int], start: int, namespace: Namespace = SHARED) -> None:
        """Give back what parked sequences alone hold of ``ids`` from position ``start`` on, in every tier."""
        node: Node | None = self.tree.match(ids, None, namespace).node
        while node is not None and node.end > start:
            above = node.parent
            for seq in [seq for seq in node.tips if seq in self.parked]:
                if self.rewind(seq, start):
                    self.park(seq)
                else:
                    self.drop(seq)
            if node.start >= start and not node.seqs and not node.children and node.piece is not None:
                self.tree.unstore(node)
            node = above

    def drop(self, seq: int) -> None:
        """Give ``seq`` and everything that only it holds back."""
        self.memory.remove(seq)
        self.tree.release(seq)
        if not self.partial:
            self._cells.release(seq)
        self.parked.discard(seq)
        self._excuses.pop(seq, None)
        self._free.append(seq)
        self._changes += 1

    def clear(self) -> None:
        """Forget everything but what is on disk; no sequence may be live."""
        self.clears += 1
        self.memory.clear()
        self.tree.clear()
        self._cells.clear()
        self.parked.clear()
        self._excuses.clear()
        self._peak = 0
        self._free = list(range(self.memory.sequences - 1, -1, -1))
        self._open.clear()
        self.open(SHARED)

    # ---- room

    def make_room(self, cells: int, spared: Container[int] = (), unused: bool = False) -> bool:
        """Evict until ``cells`` more fit; so that nothing used is lost, if it is for something ``unused``."""
        while self.used_cells + cells > self.memory.cells:
            if not self.evict(spared, unused):
                return False
        return True

    def evict(self, spared: Container[int] = (), unused: bool = False) -> bool:
        """Take the cells of the run at the end of the parked sequence that was used longest ago.

        False if none is left. What no other sequence holds is kept in host memory.
        """
        seq = self._least([s for s in self.parked if s not in spared], unused)
        if seq is None:
            return False
        self._evict_last(seq)
        return True

    def _least(self, parked: Iterable[int], unused: bool) -> int | None:
        """The sequence that was used longest ago.

        For what is ``unused`` itself only one of which all is stored, or else one that was written ahead too.
        """
        if not unused:
            return self.tree.oldest(parked, self._pinned())
        written_ahead, others = list[int](), list[int]()
        for seq in parked:
            (written_ahead if self.tree.unused(seq) else others).append(seq)
        seq = self.tree.oldest(filter(self._stored, others), self._pinned())
        return self.tree.oldest(written_ahead) if seq is None else seq

    def _stored(self, seq: int) -> bool:
        """Whether all that a sequence holds, and no other, can be brought back."""
        return self.partial and all(n.piece is not None for n in self._path(seq) if len(n.seqs) == 1)

    def _evict_last(self, seq: int) -> None:
        """Take the cells of the last run of a parked sequence."""
        node = self.tree.tip[seq]
        if len(node.seqs) == 1:
            self._store(node)
        parent = node.parent
        if parent is not None and self._shortens(node, parent):
            self.memory.remove(seq, parent.end)
            self.tree.truncate(seq, parent.end)
            self._changes += 1
        else:
            self._store_path(seq)
            self.drop(seq)

    def _shortens(self, node: Node, parent: Node) -> bool:
        """Whether a parked sequence that ends at ``node`` is kept, up to there; else it is dropped."""
        if not self.partial or parent.parent is None:
            return False
        if len(parent.seqs) == 1:
            return True
        return self._worth_keeping(parent) and (len(node.seqs) == 1 or not parent.seqs <= self.parked)

    def free_sequence(self, spared: Iterable[int] = (), unused: bool = False) -> bool:
        """Release a whole parked sequence for its id; one with which nothing is lost, if there is one.

        Only one whose loss nobody feels, if it is for something ``unused``.
        """
        parked = self.parked - set(spared)
        may_go = filter(self.tree.unused, parked) if unused else parked
        spare = next(filter(self._redundant, may_go), None)
        seq = self._least(parked, unused) if spare is None else spare
        if seq is None:
            return False
        self._store_path(seq)
        self.drop(seq)
        return True

    def gather(self) -> None:
        """Branches that have ended leave the cells, if they are copied already.

        The one that is gone on from comes back in one piece. Branches that were written together lie in
        turns, and each step reads all cells up to the highest in use: as many for one of them as for all.
        """
        if not self.partial or self._gathered == self._changes:
            return
        left = True
        while left:
            branches = [(seq, self._since_parting(seq)) for seq in self.parked]
            left = any([self._withdraw(seq, nodes) for seq, nodes in branches if nodes])
        self._gathered = self._changes

    def _withdraw(self, seq: int, nodes: list[Node]) -> bool:
        """Take a parked sequence back to before ``nodes``, its last; False if something would be lost.

        What many sequences hold stays for who comes next, but for words that branches begin with.
        """
        if any(node.piece is None or not node.seqs <= self.parked for node in nodes):
            return False
        if sum(len(node.tokens) for node in nodes if len(node.seqs) > 1) > IDLE_CELLS:
            return False
        above = nodes[-1].parent
        if above is not None and above.parent and (self._worth_keeping(above) or len(above.seqs) == 1):
            self.rewind(seq, above.end)
        else:
            self.drop(seq)
        return True

    def make_way(self) -> bool:
        """Something is about to run: what nobody runs leaves the cells, so that it costs few steps.

        False where some of it is left for the next step.
        """
        if self._settled == self._changes or not self.partial or not self.storage.budget:
            return True
        until = time.perf_counter() + COPYING_SECONDS
        while self._idle_cells() > IDLE_CELLS:
            beside_live = {s for s in self.parked if not self.tree.tip[s].seqs <= self.parked}
            if not self.evict(beside_live):
                break
            if time.perf_counter() >= until:
                return False
        if self._peak - self.used_cells > SCATTERED_CELLS + self.used_cells // 8:
            self.memory.compact()
            self._peak = self.used_cells
        self._settled = self._changes
        return True

    def store_next(self) -> bool:
        """Keep a copy of one run that is in cells only, so that it can leave them at once; False if none is.

        Nothing else is pushed out for it.
        """
        full = self.tree.stored_bytes >= self.storage.budget
        ends = {self.tree.tip[seq] for seq in self.parked}  # spare sequences end where others do
        for end in () if full else sorted(ends, key=lambda node: -node.last_used):
            if any(self._store(node) for node in end.upward()):
                return True
        return False

    def write_down(self) -> None:
        """Hand what is on the screen to the disk, which writes in its own time."""
        if self.storage.disk is not None:
            for ids, namespace in itertools.islice(self.screen(), WRITTEN_DOWN):
                for node in self.tree.match(ids, None, namespace).node.upward():
                    self.storage.to_disk(node)

    # ---- whole paths

    def states_of(self, ids: Sequence[int], namespace: Namespace = SHARED) -> tuple[list[int], list[Part]]:
        """What is held of the beginning of ``ids``, or a little more of its path, and the states of that."""
        found = self._find(ids, None, namespace)
        node = self.tree.split(found.node, found.offset)
        for one in node.upward() if self.partial else (node,):
            self._store(one)
        parts = self.storage.parts(node, namespace.salt)
        return (ids_through(node, node.piece) if parts and node.piece else []), parts

    # ---- inside

    def _anchor(self, goal: Node, most: int) -> Node:
        """Where a sequence for ``goal`` begins, at position ``most`` at the latest."""
        node = goal
        while node.parent is not None and node.start >= most:
            node = node.parent
        if node.end > most and node.parent is not None:
            whole = not self.partial or node.absent
            node = node.parent if whole else self.tree.split(node, most - node.start)
        return self.standing(node)

    def _holders(self, node: Node) -> set[int]:
        """Sequences from which another can be forked there."""
        return node.seqs if self.partial else node.tips

    def _start(self, goal: Node, most: int) -> tuple[Node, list[Node]]:
        """The node in cells from which a sequence goes to its :meth:`_anchor`, and what is stored on the way.

        The last of that comes first.
        """
        node = self._anchor(goal, most)
        if node.piece is None or self._holders(node):
            return node, []
        if not self.partial:
            return self.tree.root(self.tree.namespace_of(node)), [node]
        stored = [node]
        while (parent := stored[-1].parent) is not None and parent.parent is not None and not parent.seqs:
            stored.append(parent)
        assert parent is not None, "a root is not stored"
        return parent, stored

    def _bring_back(self, seq: int, stored: list[Node]) -> None:
        """Let ``seq`` go on along what is stored, to the end of it if that can be."""
        node, end = stored[0], stored[0].end
        if seq not in self.tree.ahead:
            self.tree.touch(node)
        for one in reversed(stored):
            reason = self._enter(seq, one)
            if reason:
                self._excuses[seq] = end, reason
                return

    def _enter(self, seq: int, node: Node) -> Reason:
        """Bring a stored node back for ``seq``, which ends where its state begins; if that fails, why."""
        piece = node.piece
        unused = seq in self.tree.ahead
        if (
            piece is None
            or not self.make_room(piece.end - piece.start, (), unused)
            or node.piece is not piece
        ):
            return "no room"
        if not self.storage.restore(seq, node):
            return "damaged"
        before = self.tree.tip[seq].end
        self.tree.enter(seq, node)
        if not self.partial:
            self._cells.grow((seq,), node.end - before)
        self._peak = max(self._peak, self.used_cells)
        self._changes += 1
        return ""

    def _store(self, node: Node) -> bool:
        """Keep the state of a resident node outside the cells as well; False where that cannot be."""
        if node.piece is not None or not self._holders(node):
            return False
        if not self.keeps(self.tree.namespace_of(node)):
            return False
        self.storage.save(node)
        self._changes += 1
        return node.piece is not None

    def _store_path(self, seq: int) -> None:
        """Keep what is lost with ``seq``."""
        for node in self._path(seq):
            if len(node.seqs) == 1:
                self._store(node)

    def _path(self, seq: int) -> list[Node]:
        """Nodes that ``seq`` holds, the last first."""
        return list(self.tree.tip[seq].upward())

    def _since_parting(self, seq: int) -> list[Node]:
        """Nodes that ``seq`` holds beside others in cells, the last first; none where it has no company."""
        path = self._path(seq)
        for number, node in enumerate(path[:-1], 1):
            if any(other.seqs for other in path[number].children.values() if other is not node):
                return path[:number]
        return []

    def _protected(self) -> set[Node]:
        """Nodes of what is on the screen, and of what is pinned."""
        kept: set[Node] = set()
        for ids, namespace in (*self.screen(), *self.pins.values()):
            kept.update(self.tree.match(ids, None, namespace).node.upward())
        return kept

    def _find(self, ids: Sequence[int], limit: int | None, namespace: Namespace = SHARED) -> Match:
        find = self.tree.match if self.partial else self.tree.anchored
        return find(ids, limit, namespace)

    def _fork(self, seq: int, node: Node) -> None:
        """Make ``seq`` a new sequence that ends at a resident node."""
        self._changes += 1
        source = self.tree.fork(seq, node)
        if self.partial:
            if source is not None:
                self.memory.copy(source, seq, 0, node.end)
            return
        anchor = source if node.end else None  # every sequence passes the root, none needs to end there
        self._cells.fork(anchor, seq)
        if anchor is not None:
            self.memory.copy(anchor, seq)

    def _claim(self, node: Node, ahead: bool = False) -> int | None:
        """A parked sequence that ends exactly at the node can be run as it is."""
        seq = self._claimable(node)
        if seq is not None:
            self.parked.discard(seq)
            if not ahead:
                self.tree.touch(node)
            self._changes += 1
        return seq

    def _claimable(self, node: Node) -> int | None:
        if node.parent is None:
            return None
        return next((seq for seq in node.tips if seq in self.parked), None)

    def _bend(self, node: Node) -> int | None:
        """Make a parked sequence that goes most of the way to a node in cells end there, if one does."""
        found, source = self._spare_for(node), next(iter(node.seqs), None)
        if found is None or source is None:
            return None
        seq, above = found
        self.parked.discard(seq)
        if self.tree.tip[seq] is not above:
            self.memory.remove(seq, above.end)
            self.tree.truncate(seq, above.end)
        if above is not node:
            self.memory.copy(source, seq, above.end, node.end)
            self.tree.enter(seq, node)
        self.tree.touch(node)
        self._changes += 1
        return seq

    def _spare_for(self, node: Node) -> tuple[int, Node] | None:
        """The parked sequence that shares most with those that hold ``node``, and where it parts from them.

        What it holds beyond that, others hold as well, or it is stored.
        """
        if not node.seqs or not self._worth_keeping(node):
            return None
        known: set[int] = set()
        for above in node.upward():
            if 2 * above.end < node.end:
                return None
            if len(above.seqs) > len(known):
                for seq in (above.seqs & self.parked) - known:
                    if self._is_spare(seq, above):
                        return seq, above
                known = above.seqs
        return None

    def _is_spare(self, seq: int, above: Node) -> bool:
        node = self.tree.tip[seq]
        while node is not above:
            if len(node.seqs) == 1 and node.piece is None:
                return False
            assert node.parent is not None
            node = node.parent
        return True

    @staticmethod
    def _worth_keeping(node: Node) -> bool:
        """Whether a sequence that ends there is, for whoever comes next, if others hold the same."""
        return node.end >= SPARE_CELLS

    def _covering(self, node: Node) -> tuple[int, ...]:
        """One sequence that must survive for the node to stay resident."""
        holders = self._holders(node)
        live = next((s for s in holders if s not in self.parked), None)
        return () if live is not None else tuple(holders)[:1]

    def _redundant(self, seq: int) -> bool:
        """Whether nothing would be lost with a sequence that is not run any more."""
        if self.partial:
            return self.tree.redundant(seq)
        node = self.tree.tip[seq]
        return node.parent is None or any(other in self.parked for other in node.tips - {seq})

    def _idle_cells(self) -> int:
        return (self.tree if self.partial else self._cells).idle_cells(self.parked)

    def _pinned(self) -> list[Node]:
        return [self.tree.match(ids, None, namespace).node for ids, namespace in self.pins.values()]
