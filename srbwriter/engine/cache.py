"""Sequences, cells and the tiers beneath them.

A sequence is live (a branch or a prompt runs on it), idle (kept for later) or free. Idle sequences are
evicted, least recently used first, when cells or ids are needed, and on a processor as soon as they would
slow a running request: attention reads every cell up to the highest in use at each step. Evicted states are
copied to the archive, and copied back when they are needed.

On a GPU idle cells cost nothing and copies much: a transfer of 8 µs for each tensor and each run of cells. A
branch of 128 tokens that was written beside others takes 45 ms, and 4 to 13 ms to be evaluated again; so it
is not copied there, and lost when cells are needed. One layer on a GPU is enough for these rules: 1000 idle
cells slow the layers that stay on the processor by 3 % or less, with flash attention, which is on then.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Container, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .archive import Archive, ids_through
from .disk import DiskCache, SavedState
from .memory import NativeMemory, Reason, idle_tip, memory_for
from .tree import SHARED, Demand, Namespace, Node
from .types import Priority

COPYING_SECONDS = 0.004
"""Time for copying out of the cells before a step, at most; the rest is copied before later steps. Copying
the alternating cells of branches that were written together takes longer than a step."""

PATHS_ON_DISK = 64
"""Paths that are written to disk when nothing runs, the newest first."""

OPEN_NAMESPACES = 1000
"""Namespaces that are remembered as looked up on disk."""


class Cache:
    """The cells of a context, and the archive beneath them.

    Args:
        logits_rows: rows of logits kept, so that forking evaluates nothing.
        on_device: whether the cells are a GPU's.
        host_bytes: bytes of host memory for states that are not in cells.
        disk: for states that outlive the program.
        visible_paths: returns the paths on the screen; they leave host memory last.
    """

    def __init__(
        self, native: NativeMemory, *, logits_rows: int, on_device: bool = False, host_bytes: int = 0,
        disk: DiskCache | None = None,
        visible_paths: Callable[[], Iterable[tuple[Sequence[int], Namespace]]] = tuple,
    ) -> None:  # fmt: skip
        self.native = native
        self.on_device = on_device
        self.memory = memory_for(native, logits_rows, on_device)
        self.tree = self.memory.tree
        self.idle = self.memory.idle
        self.archive = Archive(
            self.memory,
            budget=host_bytes,
            disk=disk,
            protected=self._protected_nodes,
        )
        self.visible_paths = visible_paths
        self.pins: dict[str, tuple[Sequence[int], Namespace]] = {}
        self._free = list(range(native.sequences - 1, -1, -1))
        self._excuses: dict[int, tuple[int, Reason]] = {}  # of a live sequence, up to a position
        self.on_clear: Callable[[], None] = lambda: None
        self._changes = 0  # counts changes of what is idle or stored
        self._evicted_idle = self._evicted_finished = -1  # changes after which nothing was left to evict
        self._opened: set[tuple[Namespace, Sequence[int]]] = set()  # namespaces looked up on disk
        self.open_namespace(SHARED)

    @property
    def used_sequences(self) -> int:
        return self.native.sequences - len(self._free)

    @property
    def used_cells(self) -> int:
        """Cells that are not free."""
        return self.memory.used_cells

    @property
    def live_cells(self) -> int:
        """Cells that running sequences hold; all others can be freed."""
        return self.used_cells - self.memory.count_idle_cells()

    def open_namespace(self, namespace: Namespace, common: Sequence[int] = ()) -> None:
        """Look up once what the disk holds of a namespace; ``common`` are the tokens before its start."""
        if namespace.salt:
            self.open_namespace(Namespace(namespace.root))
        known = namespace, tuple(common)
        if self.is_archived(namespace) and known not in self._opened:
            if len(self._opened) >= OPEN_NAMESPACES:
                self._opened.clear()  # they are looked up again; nothing is kept twice
            self._opened.add(known)
            self.archive.find_on_disk(namespace, common)

    def is_archived(self, namespace: Namespace) -> bool:
        """Whether text of a namespace is kept outside the cells; text that only one request sees is not."""
        return bool(self.archive.budget) and namespace.root == SHARED.root

    def keeps_evicted(self, tokens: int) -> bool:
        """Whether so many tokens can leave the cells at any time, and come back without being evaluated."""
        return not self.on_device and self.archive.can_hold(tokens)

    # ---- sequences for demands

    def count_held(self, ids: Sequence[int], namespace: Namespace = SHARED) -> int:
        """Return how many of ``ids`` can be resumed without evaluating them, from any tier."""
        return self.tree.match_resumable(ids, namespace).length

    def count_used(self, ids: Sequence[int], namespace: Namespace = SHARED) -> int:
        """Return how many of ``ids`` are held because a request used them; prefetched ones do not count."""
        node = self.tree.match_prefix(ids, namespace).node
        while node.parent is not None and not node.last_used:
            node = node.parent
        return node.end

    def count_idle_prefix(self, demand: Demand, most: int) -> int:
        """Return how many cells of the path of ``demand`` only idle sequences hold."""
        node, cells = demand.node, 0
        assert node is not None
        while node.parent is not None:
            if node.seqs and node.seqs <= self.idle:
                cells += max(min(node.end, most) - node.start, 0)
            node = node.parent
        return cells

    def count_missing_cells(self, demand: Demand, most: int) -> int:
        """Return how many more cells ``demand`` takes, if ``most`` of its tokens may be held."""
        assert demand.node is not None
        start, _ = self.memory.resume_path(demand.node, most)
        return demand.node.end - start.end

    def has_sequence_for(self, demand: Demand, most: int) -> bool:
        """Whether :meth:`allocate` would take its sequence from no idle prefix."""
        assert demand.node is not None
        return bool(self._free) or self.memory.can_reuse(self.tree.longest_prefix(demand.node, most))

    def allocate(self, demand: Demand, most: int) -> bool:
        """Give ``demand`` a sequence where its path is held, ``most`` tokens along it at the farthest.

        Stored states on the path are restored, as far as there are cells. False when no sequence is to be
        had. Raises NativeError when llama.cpp refuses.
        """
        goal = demand.node
        assert goal is not None
        start, stored = self.memory.resume_path(goal, most)
        prefetch = demand.urgency is Priority.AHEAD
        seq = None
        if not (prefetch and start.last_used):  # else an idle sequence that ends there stays as it is
            seq = self.memory.reuse_sequence(start, exact=prefetch)
            if seq is not None:
                self._changes += 1
                if not prefetch:
                    self.tree.mark_used(start)
        if seq is None and not self._free:
            holders = self.tree.holders(start)  # one of them has to stay, for the node to stay resident
            kept = () if holders - self.idle else tuple(holders)[:1]
            for one in () if prefetch else kept:
                self.tree.mark_used(self.tree.tip[one])
            if self.free_sequence(kept, unused=prefetch):
                start, stored = self.memory.resume_path(goal, most)  # the tree may have changed
            else:
                seq = None if prefetch else idle_tip(start, self.idle)
                if seq is None:
                    return False
                self.idle.discard(seq)
                self.tree.mark_used(start)
                self._changes += 1
        if seq is None:
            seq = self._free.pop()
        (self.tree.prefetching.add if prefetch else self.tree.prefetching.discard)(seq)
        if seq not in self.tree.tip:
            self._changes += 1
            self.memory.fork(seq, start)
        if stored:
            self._restore_path(seq, stored)
        demand.seq = seq
        return True

    def _restore_path(self, seq: int, stored: list[Node]) -> None:
        """Restore the ``stored`` nodes, the last of which comes first, for ``seq``, as far as that goes."""
        if seq not in self.tree.prefetching:
            self.tree.mark_used(stored[0])
        end = stored[0].end
        for node in reversed(stored):
            reason = self._restore_node(seq, node)
            if reason:
                self._excuses[seq] = end, reason
                return

    def _restore_node(self, seq: int, node: Node) -> Reason:
        """Restore a stored node for ``seq``, which ends where its state begins; return why that failed."""
        block = node.block
        unused = seq in self.tree.prefetching
        if (
            block is None
            or not self.free_cells(block.end - block.start, (), unused)
            or node.block is not block
        ):
            return "no room"
        if not self.archive.restore_node(seq, node):
            return "damaged"
        self.memory.attach_sequence(seq, node)
        self._changes += 1
        return ""

    def mark_wanted(self, demand: Demand, path: Sequence[int]) -> None:
        """Count what was prefetched for ``demand``, which is at the end of ``path``, as used from now on."""
        self.tree.prefetching.discard(demand.seq)
        self.tree.mark_used(self.tree.match_prefix(path, demand.namespace).node)

    def catch_up(self, demand: Demand) -> bool:
        """Move ``demand`` forward to the tokens of its path that others have evaluated since it began.

        They may be in host memory by now. False where the cells have no room for them; then the demand has no
        sequence any more.
        """
        goal = demand.node
        assert goal is not None
        excused, _ = self._excuses.get(demand.seq, (0, ""))
        node = self.memory.find_progress(goal, excused)
        if min(node.end, goal.end - 1) > self.tree.tip[demand.seq].end:
            self.release(demand)
            return self.allocate(demand, goal.end - 1)
        return True

    def release(self, demand: Demand) -> None:
        """Take ``demand`` off its sequence, which stays as long as room allows."""
        seq, demand.seq = demand.seq, -1
        if seq >= 0:
            self.make_idle(seq)

    # ---- what was evaluated

    def advance(
        self, seqs: Sequence[int], tokens: Sequence[int], namespace: Namespace = SHARED, *,
        answered: bool = True, reason: Reason = "",
    ) -> None:  # fmt: skip
        """Record that ``tokens`` were decoded for ``seqs``. Cells evaluated twice are freed if possible.

        ``answered``: the logits after the last token were requested. ``reason`` is why the others were
        decoded, if the cache held them already.
        """
        start = self.tree.tip[seqs[0]].end
        known = self.memory.advance(seqs, tokens, namespace)
        if known:
            self._count_evaluated_again(seqs[0], start, known, answered and known == len(tokens), reason)

    def advance_rows(self, demands: Sequence[Demand]) -> None:
        """Record that the next token of each of ``demands`` was decoded."""
        for demand in self.memory.advance_single(demands):
            assert demand.node is not None
            self.advance((demand.seq,), demand.node.tokens, demand.namespace)

    def _count_evaluated_again(
        self, seq: int, start: int, known: int, answered: bool, reason: Reason
    ) -> None:
        """Count ``known`` tokens that were just decoded although they were held, by their reasons."""
        until, excuse = self._excuses.get(seq, (0, ""))
        excused = max(0, min(known, until - start))
        last = 1 if answered and known > excused else 0
        other = reason or self.memory.repeat_reason
        for why, tokens in ((excuse, excused), ("logits", last), (other, known - excused - last)):
            if tokens:
                self.archive.traffic.count_evaluated_again(why, tokens)

    def store_logits(self, seq: int, row: NDArray[np.float32], awaited: bool = False) -> None:
        """Keep a copy of ``row`` as the logits after the tip of ``seq``; see ``TokenTree.store_logits``."""
        self.tree.store_logits(seq, np.array(row, np.float32), awaited)

    # ---- giving back

    def rewind(self, seq: int, end: int) -> bool:
        """Drop what ``seq`` holds from position ``end`` on; False where the memory cannot do that."""
        self._changes += 1
        return self.memory.rewind(seq, end)

    def make_idle(self, seq: int) -> None:
        """Record that ``seq`` no longer runs; tokens that only it holds are kept in some tier."""
        self._excuses.pop(seq, None)
        self._changes += 1
        if self.memory.is_redundant(seq) and not self.memory.is_worth_keeping(self.tree.tip[seq]):
            self.drop_sequence(seq)
            return
        self.idle.add(seq)
        if seq not in self.tree.prefetching:
            self.tree.mark_used(self.tree.tip[seq])

    def forget_tail(self, ids: Sequence[int], start: int, namespace: Namespace = SHARED) -> None:
        """Drop what only idle sequences hold of ``ids`` from position ``start`` on, in every tier."""
        node: Node | None = self.tree.match_prefix(ids, namespace).node
        while node is not None and node.end > start:
            above = node.parent
            for seq in [seq for seq in node.tips if seq in self.idle]:
                if self.rewind(seq, start):
                    self.make_idle(seq)
                else:
                    self.drop_sequence(seq)
            if node.start >= start and not node.seqs and not node.children and node.block is not None:
                self.tree.drop_block(node)
            node = above

    def drop_sequence(self, seq: int) -> None:
        """Give back ``seq`` and everything that only it holds."""
        self.memory.release(seq)
        self._excuses.pop(seq, None)
        self._free.append(seq)
        self._changes += 1

    def clear(self) -> None:
        """Forget everything except states on disk; no sequence may be live."""
        self.on_clear()
        self.memory.clear()
        self._excuses.clear()
        self._free = list(range(self.native.sequences - 1, -1, -1))
        self._opened.clear()
        self.open_namespace(SHARED)

    # ---- room

    def free_cells(self, cells: int, kept: Container[int] = (), unused: bool = False) -> bool:
        """Evict until ``cells`` more fit; False if that cannot be. ``unused`` as in :meth:`evict_run`."""
        while self.used_cells + cells > self.native.cells:
            if not self.evict_run(kept, unused):
                return False
        return True

    def evict_run(self, kept: Container[int] = (), unused: bool = False) -> bool:
        """Take the last block of the idle sequence that was used longest ago; False if none is.

        What no other sequence holds is archived, unless that is dear. ``unused``: the room is for unused
        text, so no used text may be lost for it.
        """
        seq = self._least_recent([s for s in self.idle if s not in kept], unused)
        if seq is None:
            return False
        *_, node = self.memory.split_blocks(self.tree.tip[seq])
        if len(node.seqs) == 1 and not self._is_dear(node):
            self._archive_node(node)
        if self.memory.shorten(seq):
            self._changes += 1
        else:
            self._archive_and_drop(seq)
        return True

    def free_sequence(self, kept: Iterable[int] = (), unused: bool = False) -> bool:
        """Drop an idle sequence for its id, one with which nothing is lost if there is one; False if none is.

        ``unused`` as in :meth:`evict_run`.
        """
        idle = self.idle - set(kept)
        may_go = filter(self.tree.is_unused, idle) if unused else idle
        seq = next(filter(self.memory.is_redundant, may_go), None)
        if seq is None:
            seq = self._least_recent(idle, unused)
        if seq is None:
            return False
        self._archive_and_drop(seq)
        return True

    def _least_recent(self, idle: Iterable[int], unused: bool) -> int | None:
        """Return the idle sequence that was used longest ago.

        For ``unused`` text only a sequence that is stored, or else one that was prefetched too.
        """
        if not unused:
            return self.tree.least_recent(idle, self._pinned_nodes())
        prefetched, others = list[int](), list[int]()
        for seq in idle:
            (prefetched if self.tree.is_unused(seq) else others).append(seq)
        seq = self.tree.least_recent(filter(self.memory.is_stored, others), self._pinned_nodes())
        return self.tree.least_recent(prefetched) if seq is None else seq

    def _archive_and_drop(self, seq: int) -> None:
        """Archive what only ``seq`` holds, unless that is dear, and drop it."""
        for node in list(self.tree.tip[seq].path_up()):
            if len(node.seqs) == 1 and not self._is_dear(node):
                self._archive_node(node)
        self.drop_sequence(seq)

    def _is_dear(self, node: Node) -> bool:
        """Whether evaluating the tokens of ``node`` again takes less time than copying them."""
        return self.on_device and self.memory.lies_apart(node)

    def _archive_node(self, node: Node) -> bool:
        """Keep the state of a resident node outside the cells as well; False where that cannot be."""
        if node.block is not None or not self.tree.holders(node):
            return False
        if not self.is_archived(self.tree.namespace_of(node)):
            return False
        self.archive.save_node(node)
        self._changes += 1
        return node.block is not None

    def evict_finished(self) -> None:
        """Evict the ends of idle branches that are archived already.

        The branch that continues is then restored in one piece. The cells of branches that were written
        together alternate, and each step reads all cells up to the highest in use: as many for one of these
        branches as for all.
        """
        if self.on_device or self._evicted_finished == self._changes:
            return
        left = True
        while left:
            branches = [(seq, self.memory.parted_nodes(seq)) for seq in self.idle]
            left = any([self._evict_nodes(seq, nodes) for seq, nodes in branches if nodes])
        self._evicted_finished = self._changes

    def _evict_nodes(self, seq: int, nodes: list[Node]) -> bool:
        """Take an idle sequence back to before ``nodes``, its last; False if something would be lost.

        What several sequences hold stays for the next request, but for the first words of branches.
        """
        if any(node.block is None or not node.seqs <= self.idle for node in nodes):
            return False
        shared = sum(len(node.tokens) for node in nodes if len(node.seqs) > 1)
        if shared > self.memory.most_idle_cells:
            return False
        above = nodes[-1].parent
        if (
            above is not None
            and above.parent is not None
            and (len(above.seqs) == 1 or self.memory.is_worth_keeping(above))
        ):
            return self.rewind(seq, above.end)
        self.drop_sequence(seq)
        return True

    def evict_idle(self) -> bool:
        """Evict idle text before something runs, so that it slows few steps; False if some is left to do."""
        if self._evicted_idle == self._changes or not self.keeps_evicted(self.used_cells):
            return True
        until = time.perf_counter() + COPYING_SECONDS
        while self.memory.count_idle_cells() > self.memory.most_idle_cells:
            beside_live = {s for s in self.idle if not self.tree.tip[s].seqs <= self.idle}
            if not self.evict_run(beside_live):
                break
            if time.perf_counter() >= until:
                return False
        self.memory.compact()
        self._evicted_idle = self._changes
        return True

    # ---- copies of what is in cells

    def archive_next_node(self) -> bool:
        """Archive a block that is in cells only, so that it can be evicted at once; False if none is left.

        Nothing else is pushed out of host memory for it.
        """
        full = self.tree.stored_bytes >= self.archive.budget
        ends = {self.tree.tip[seq] for seq in self.idle}
        for end in () if full else sorted(ends, key=lambda node: -node.last_used):
            for node in end.path_up():
                if node.block is not None or self._is_dear(node):
                    continue
                if self._archive_node(next(self.memory.split_blocks(node))):
                    return True
        return False

    def write_visible_to_disk(self) -> None:
        """Hand the visible paths to the disk, which writes in its own time."""
        if self.archive.disk is not None:
            for ids, namespace in itertools.islice(self.visible_paths(), PATHS_ON_DISK):
                for node in self.tree.match_prefix(ids, namespace).node.path_up():
                    self.archive.write_to_disk(node)

    def collect_states(
        self, ids: Sequence[int], namespace: Namespace = SHARED
    ) -> tuple[list[int], list[SavedState]]:
        """Return the held beginning of ``ids``, or a little more of its path, and its states."""
        found = self.tree.match_resumable(ids, namespace)
        node = self.tree.split(found.node, found.offset)
        for one in self.tree.state_nodes(node):
            self._archive_node(one)
        states = self.archive.collect_states(node, namespace.salt)
        return (ids_through(node, node.block) if states and node.block else []), states

    def _protected_nodes(self) -> set[Node]:
        """Return the nodes of visible and of pinned paths."""
        kept: set[Node] = set()
        for ids, namespace in (*self.visible_paths(), *self.pins.values()):
            kept.update(self.tree.match_prefix(ids, namespace).node.path_up())
        return kept

    def _pinned_nodes(self) -> list[Node]:
        return [self.tree.match_prefix(ids, namespace).node for ids, namespace in self.pins.values()]
