"""Sequences, cells and host memory: which tokens lie where, and what gives way.

A sequence is live (a branch or a prompt runs on it), idle (kept for later) or free. Idle sequences leave
the cells, least recently used first, when cells or ids are needed, and on a processor as soon as they would
slow a running request: attention reads every cell up to the highest in use at each step. Their states are
copied to host memory, and back when they are needed: that took a 190th to a 2500th of the time of evaluating
the tokens again where both were measured. What is on the screen leaves host memory last, and is written to
the file of its story when nothing runs.

On a GPU idle cells cost nothing and copies much: a transfer of 8 µs for each tensor and each run of cells. A
branch of 128 tokens that was written beside others takes 45 ms, and 4 to 13 ms to be evaluated again; so it
is not copied there, and lost when cells are needed. One layer on a GPU is enough for these rules: 1000 idle
cells slow the layers that stay on the processor by 3 % or less, with flash attention, which is on then.

The memory of an attention model, with or without sliding layers, has cells that are shared and dropped one by
one. A recurrent or hybrid memory has one state for each sequence (``whole``): it is forked and resumed only
where a sequence ends or a state was stored, so its idle sequences stay there as long as there are ids.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .disk import StoryFiles
from .native.context import Context
from .tree import PRIVATE, Demand, NodeState, TokenNode, TokenTree
from .types import Priority

BLOCK = 128
"""Tokens of a stored state, at most. Copying them takes some 25 ms with a model of 135M in the slowest case,
where the cells of several branches alternate."""
DEVICE_BLOCK = 64
"""The same where the cells are a GPU's: 2 to 4 ms with a model of 8B, whose cells lie in a row."""
IDLE_CELLS = 32
"""Idle cells that may stay while a processor computes. With 256 of them, which is the portion that llama.cpp
reads, a step of eight branches takes a tenth longer."""
REUSED_CELLS = 512
"""From so many cells on an idle sequence is kept and made to end elsewhere rather than a new one forked:
llama.cpp takes 1.5 to 3 ms to share 8000 cells, which 64 new branches would each wait for."""
SCATTERED_CELLS = 256
"""Free cells below the highest in use, at most, before the cells in use are moved together: the portion that
llama.cpp reads. With 512 the rest of a parked text lets a single branch read three portions, not one."""
COPYING_SECONDS = 0.004
"""Time for copying out of the cells before a short step; the rest is copied before later steps."""
LEAST_ON_DISK = 64
"""Tokens that a story's file must save a request, or it is not read."""
PATHS_ON_DISK = 64
"""Paths of the screen that are written to disk, the newest first."""
_ROOM = 0.9  # of the budget of host memory, to which it is emptied when it is full


class Cache:
    """The cells of a context, and the host memory beneath them.

    Args:
        logits_rows: rows of logits kept, so that forking evaluates nothing.
        on_device: whether the cells are a GPU's.
        host_bytes: bytes of host memory for states; 0 keeps nothing there.
        files: for states that outlive the program.
        visible_paths: returns the paths on the screen, the newest first.

    Attributes:
        can_rewind: whether the end of a sequence can be dropped.
        saved_tokens, restored_tokens: that were copied out of the cells, and back.
    """

    def __init__(
        self, native: Context, *, logits_rows: int, on_device: bool = False, host_bytes: int = 0,
        files: StoryFiles | None = None,
        visible_paths: Callable[[], Iterable[tuple[Sequence[int], str]]] = tuple,
    ) -> None:  # fmt: skip
        self.native, self.on_device, self.budget, self.files = native, on_device, host_bytes, files
        self.visible_paths = visible_paths
        self.can_rewind = native.cuttable
        self.tree = TokenTree(logits_rows, whole=not native.cuttable)
        self.idle: set[int] = set()
        self.on_clear: Callable[[], None] = lambda: None
        self.saved_tokens = self.restored_tokens = 0
        self._runs: dict[int, list[list[int]]] = {}  # cells of a sequence, evaluated between forks
        self._free = list(range(native.sequences - 1, -1, -1))
        self._peak = 0  # most cells in use since they were moved together
        self._unit_bytes = 0.0  # of a token, or of a whole state; known when one has been saved
        window, block = native.window, DEVICE_BLOCK if on_device else BLOCK
        # of a sliding layer llama.cpp saves what lies between two multiples of its window
        self._block = block if not window or window % block == 0 else window

    @property
    def used_sequences(self) -> int:
        return self.native.sequences - len(self._free)

    @property
    def used_cells(self) -> int:
        """Cells that are not free."""
        return _count_forked(list(self._runs.values())) if self.tree.whole else self.tree.cells

    @property
    def live_cells(self) -> int:
        """Cells that running sequences hold; all others can be freed."""
        if self.tree.whole:
            return _count_forked([self._runs[seq] for seq in self._runs.keys() - self.idle])
        return self.used_cells - self.tree.count_idle_cells(self.idle)

    def copies(self, salt: str) -> bool:
        """Whether text of a salt is kept outside the cells; text that only one request sees is not."""
        return self.budget > 0 and not salt.startswith(PRIVATE)

    def returns(self, salt: str) -> bool:
        """Whether text of a salt may leave the cells at any time, and comes back without being read."""
        most = self.native.sequences if self.tree.whole else self.native.cells
        return self.copies(salt) and not self.on_device and self._unit_bytes * most <= self.budget

    # ---- sequences for demands

    def count_held(self, ids: Sequence[int], salt: str = "") -> int:
        """Return how many of ``ids`` can be resumed without evaluating them."""
        if self.tree.whole:
            return self.tree.resumable(ids, salt, len(ids)).end
        return self.tree.match(ids, salt)[1]

    def count_cells(self, path: Sequence[int], salt: str, most: int) -> tuple[int, int]:
        """Return how many more cells a path takes, and how many it has that only idle sequences hold.

        ``most`` of its tokens may be held.
        """
        node, _ = self._resume(path, salt, most)
        parked = sum(len(above.tokens) for above in node.path_up() if above.seqs <= self.idle)
        return len(path) - node.end, parked

    def _resume(self, path: Sequence[int], salt: str, most: int) -> tuple[TokenNode, list[TokenNode]]:
        """Return where a sequence for a path begins in cells, and the stored nodes to restore below it.

        Both end at position ``most`` at the latest. The last stored node comes first.
        """
        node, stored = self.tree.resumable(path, salt, most), list[TokenNode]()
        if self.tree.whole and node.parent is not None and not self.tree.holders(node):
            return self.tree.root(salt), [node]
        while node.parent is not None and not node.seqs:
            stored.append(node)
            node = node.parent
        return node, stored

    def allocate(self, demand: Demand, path: Sequence[int], most: int) -> bool:
        """Give ``demand`` a sequence where its ``path`` is held, ``most`` tokens along it at the farthest.

        Stored states on the path are restored, as far as there are cells. False when no sequence is to be
        had. Raises NativeError when llama.cpp refuses.
        """
        background = demand.urgency is Priority.BACKGROUND
        node, stored = self._resume(path, demand.salt, most)
        holders = self.tree.holders(node)
        idle = next((seq for seq in holders if seq in self.idle and self.tree.tip[seq] is node), None)
        # a whole state stays for others, and what was used stays apart from background work
        seq = None if self.tree.whole or node.parent is None or (background and node.last_used) else idle
        if seq is None and not background:
            seq = self._redirect(node)
        if seq is None and not self._free:
            kept = set(holders[:1]) if self.idle.issuperset(holders) else set[int]()  # or the node would go
            freed = self._free_sequence(kept, background)
            if freed or (idle is None and self._free_sequence((), background)):
                node, stored = self._resume(path, demand.salt, most)  # the tree may have changed
            elif idle is None or background:
                return False
            else:
                seq = idle
        if seq is None:
            seq = self._free.pop()
            source = next(iter(self.tree.holders(node)), None) if node.end else None
            self.tree.attach_sequence(seq, node)
            shared = [] if source is None else [run for run in self._runs[source] if run[0]]
            self._runs[seq] = [*shared, [0]]
            if source is not None:
                self._runs[source] = [*shared, [0]]
                self.native.copy(source, seq, *(() if self.tree.whole else (0, node.end)))
        self.idle.discard(seq)
        if not background:
            self.tree.mark_used(stored[0] if stored else node)
        for part in reversed(stored):
            if not self._restore(seq, part, background):
                break
        demand.seq = seq
        return True

    def _redirect(self, node: TokenNode) -> int | None:
        """Make the idle sequence that shares most of the way to ``node`` end there; None if none is near.

        What it holds beyond is held by others, or stored.
        """
        if self.tree.whole or node.end < REUSED_CELLS or not node.seqs:
            return None
        known = set[int]()
        for above in node.path_up():
            if 2 * above.end < node.end:
                return None
            for seq in (above.seqs & self.idle) - known:
                one = self.tree.tip[seq]
                while one is not above and (len(one.seqs) > 1 or one.state is not None):
                    one = one.parent or above
                if one is not above:
                    continue
                self.rewind(seq, above.end)
                if above is not node:
                    self.native.copy(next(iter(node.seqs)), seq, above.end, node.end)
                    self.tree.attach_sequence(seq, node)
                return seq
            known = above.seqs
        return None

    def _restore(self, seq: int, node: TokenNode, background: bool) -> bool:
        """Copy a stored node into cells for ``seq``, which ends where it begins; False where that fails."""
        state = node.state
        if state is None or not self.free_cells(state.end - state.start, background):
            return False
        if node.state is not state:
            return False  # it was dropped for what left the cells
        if self.tree.whole:
            restored = self.native.restore_sequence(state.data, node.end, seq)
        else:
            restored = self.native.restore_range(
                state.data, state.start, state.end, seq, node.start, node.end
            )
        if not restored:
            self.tree.drop_state(node)
            return False
        self._runs[seq][-1][0] += node.end - self.tree.tip[seq].end
        self.restored_tokens += node.end if self.tree.whole else len(node.tokens)
        self.tree.attach_sequence(seq, node)
        self._peak = max(self._peak, self.used_cells)
        return True

    def catch_up(self, demand: Demand) -> bool:
        """Move ``demand`` forward to what others have evaluated of its path since it began.

        False where no sequence is free for that; then it has none any more.
        """
        tip, path = self.tree.tip[demand.seq], demand.path
        if tip.end + 1 >= len(path) or path[tip.end] not in tip.children:
            return True
        found = self.tree.resumable(path, demand.salt, len(path) - 1)
        if found.end <= self.tree.tip[demand.seq].end or (self.tree.whole and not self.tree.holders(found)):
            return True  # a stored whole state may not fit, and to go back for it would never end
        self.release(demand)
        return self.allocate(demand, path, len(path) - 1)

    def release(self, demand: Demand) -> None:
        """Take ``demand`` off its sequence, which stays as long as room allows."""
        seq, demand.seq = demand.seq, -1
        if seq >= 0:
            self.make_idle(seq, used=demand.urgency is not Priority.BACKGROUND)

    # ---- what was evaluated

    def advance(self, seq: int, tokens: Sequence[int], written: bool = False) -> None:
        """Record that ``tokens`` were decoded for ``seq``. Cells evaluated twice are freed if possible."""
        self._runs[seq][-1][0] += len(tokens)
        for source, start, end in self.tree.advance(seq, tokens, written):
            if not self.tree.whole:
                self.native.remove(seq, start, end)
                self.native.copy(source, seq, start, end)
        self._peak = max(self._peak, self.tree.cells)

    def store_logits(self, seq: int, row: NDArray[np.float32]) -> None:
        """Keep a copy of ``row`` as the logits after the tip of ``seq``."""
        self.tree.store_logits(seq, np.array(row, np.float32))

    # ---- giving back

    def rewind(self, seq: int, end: int) -> bool:
        """Drop what ``seq`` holds from position ``end`` on; False where the memory cannot do that."""
        if not self.can_rewind:
            return False
        if self.tree.tip[seq].end > end:
            self.native.remove(seq, end)
            self.tree.truncate(seq, end)
        return True

    def make_idle(self, seq: int, used: bool = True) -> None:
        """Record that ``seq`` no longer runs. It is kept if it alone holds something, or much with others.

        ``used`` is False for background work, which gives way first.
        """
        node = self.tree.tip[seq]
        others = self.tree.holders(node) if not self.tree.whole else self.idle.intersection(
            self.tree.holders(node)
        )  # fmt: skip
        again = not self.tree.whole and node.end >= REUSED_CELLS
        if node.parent is None or (not again and any(other != seq for other in others)):
            self.drop_sequence(seq)
            return
        self.idle.add(seq)
        if used:
            self.tree.mark_used(node)

    def forget_tail(self, ids: Sequence[int], start: int, salt: str = "") -> None:
        """Drop what only idle sequences hold of ``ids`` from position ``start`` on, in host memory too."""
        found, held = self.tree.match(ids, salt)
        node = found if held == found.end else found.parent  # what goes on behind them is another's
        while node is not None and node.end > start:
            above = node.parent
            for seq in [seq for seq in node.seqs & self.idle if self.tree.tip[seq] is node]:
                if self.rewind(seq, start):
                    self.make_idle(seq)
                else:
                    self.drop_sequence(seq)
            if node.start >= start and not node.seqs and not node.children and node.state is not None:
                self.tree.drop_state(node)
            node = above

    def drop_sequence(self, seq: int) -> None:
        """Give back ``seq`` and everything that only it holds in cells."""
        self.native.remove(seq)
        self.tree.remove_sequence(seq)
        del self._runs[seq]
        self.idle.discard(seq)
        self._free.append(seq)

    def clear(self) -> None:
        """Forget everything except files; no sequence may be live."""
        self.on_clear()
        self.native.clear()
        self.tree.clear()
        self.idle.clear()
        self._runs.clear()
        self._peak = 0
        self._free = list(range(self.native.sequences - 1, -1, -1))

    # ---- room

    def free_cells(self, cells: int, background: bool = False) -> bool:
        """Evict until ``cells`` more fit; False if that cannot be. ``background`` as in :meth:`evict`."""
        while self.used_cells + cells > self.native.cells:
            if not self.evict(background):
                return False
        return True

    def evict(self, background: bool = False) -> bool:
        """Take the end of the idle sequence that was used longest ago out of the cells; False if none is.

        ``background``: the room is for background work, for which nothing may be lost that a request used.
        """
        for seq in self._oldest_first():
            node = self.tree.tip[seq]
            if background and (len(node.seqs) > 1 or (node.last_used and node.state is None)):
                continue
            if not self.tree.whole and not node.seqs <= self.idle:
                continue  # a running sequence holds all of it
            if len(node.seqs) == 1 or self.tree.whole:
                *_, node = self._blocks(node)
                self._save(node)
            if len(node.seqs) == 1 and self.rewind(seq, node.start):
                self.make_idle(seq, used=False)
            else:
                self.drop_sequence(seq)
            return True
        return False

    def _free_sequence(self, kept: Container[int], background: bool) -> bool:
        """Drop an idle sequence but for ``kept``; False if there is none. ``background`` as in evict."""
        for seq in self._oldest_first():
            path = self._nodes_of(self.tree.tip[seq])
            own = path if self.tree.whole else [node for node in path if len(node.seqs) == 1]
            lost = not own or any(node.last_used and node.state is None for node in own)
            if seq in kept or (background and lost):
                continue  # without own nodes it keeps what others share with it now
            for node in own:
                self._save(node)
            self.drop_sequence(seq)
            return True
        return False

    def _oldest_first(self) -> list[int]:
        """Return the idle sequences, the one used longest ago first."""
        return sorted(self.idle, key=lambda seq: self.tree.tip[seq].last_used)

    def evict_idle(self, seconds: float) -> bool:
        """Evict idle text for so long, or a moment, before something runs; return False if some is left.

        Only on a processor, and for a memory that is read at each step; and where nothing is lost by it.
        """
        fits = self._unit_bytes * self.used_cells <= self.budget > 0
        if self.on_device or self.tree.whole or not fits:
            return True
        until = time.perf_counter() + max(seconds, COPYING_SECONDS)
        while self.tree.count_idle_cells(self.idle) > IDLE_CELLS and self.evict():
            if time.perf_counter() >= until:
                return False
        if self._peak - self.used_cells > SCATTERED_CELLS + self.used_cells // 8:
            self.native.compact()
            self._peak = self.used_cells
        return True

    # ---- host memory

    def archive_next(self) -> bool:
        """Copy a block of idle text that is in cells only, so that it can leave them; False if none is left.

        Nothing else is pushed out of host memory for it.
        """
        size = self._unit_bytes * (1 if self.tree.whole else self._block)
        if self.tree.stored_bytes + size < self.budget:
            for end in sorted({self.tree.tip[seq] for seq in self.idle}, key=lambda n: -n.last_used):
                for node in self._nodes_of(end):
                    if node.state is None and self._save(next(self._blocks(node))):
                        return True
        return False

    def _blocks(self, node: TokenNode) -> Iterator[TokenNode]:
        """Split a resident node into nodes of one stored state each, and yield them."""
        if not self.tree.whole:
            while (boundary := (node.start // self._block + 1) * self._block) < node.end:
                yield self.tree.split(node, boundary - node.start)
        yield node

    def _save(self, node: TokenNode) -> bool:
        """Keep the state of a resident node in host memory as well; False where that is not done.

        It is not for what takes less time to evaluate again than to copy: see the top of this module.
        """
        dear = self.on_device and node.written and not self.tree.whole
        if node.state is not None or dear or not self.copies(node.salt):
            return False
        for part in self._blocks(node):
            seq = next(iter(self.tree.holders(part)))
            if self.tree.whole:
                state = NodeState(0, part.token_ids(), self.native.save_sequence(seq))
            else:
                state = NodeState(part.start, part.tokens, self.native.save_range(seq, part.start, part.end))
            self._unit_bytes = state.size / (1 if self.tree.whole else len(state.tokens))
            self.tree.set_state(part, state)
            self.saved_tokens += len(part.tokens)
        self._shrink()
        return node.state is not None

    def _shrink(self) -> None:
        """Keep to the budget of host memory: drop the states used longest ago, visible ones last."""
        if self.tree.stored_bytes <= self.budget:
            return
        shown = {node for path in self.visible_paths() for node in self.tree.match(*path)[0].path_up()}
        stored = [node for node in self.tree.nodes() if node.state is not None]
        stored.sort(key=lambda n: (n in shown, n.last_used, -n.end))  # leaves before their ancestors
        for node in stored:
            if self.tree.stored_bytes <= self.budget * _ROOM:
                return
            if node.state is not None:
                self.tree.drop_state(node)

    # ---- files

    def collect_states(self, ids: Sequence[int], salt: str = "") -> list[NodeState]:
        """Return the states of the held beginning of ``ids``, or of a little more of its path."""
        node = self.tree.resumable(ids, salt, len(ids))
        for part in self._nodes_of(node):
            self._save(part)
        return self._states_of(node)[-1 if self.tree.whole else 0 :]

    def _nodes_of(self, node: TokenNode) -> list[TokenNode]:
        """Return the nodes whose states make up the state after ``node``."""
        return list(node.path_up())[: 1 if self.tree.whole else None]

    def _states_of(self, node: TokenNode) -> list[NodeState]:
        """Return the states from the root to ``node``; none if one is missing of which all are needed."""
        found = list[NodeState]()
        for part in node.path_up():
            if part.state is None and not self.tree.whole:
                return []
            if part.state is not None and part.state not in found[-1:]:
                found.append(part.state)
        return found[::-1]

    def add_states(self, ids: Sequence[int], states: Sequence[NodeState], salt: str = "") -> None:
        """Keep states that were made of ``ids`` before, where they are not kept already."""
        for state in states if self.copies(salt) else ():
            self.tree.add_state([*ids[: state.start], *state.tokens], state, salt)
        self._shrink()

    def read_story(self, ids: Sequence[int], salt: str) -> None:
        """Take what the file of a story holds of ``ids``, if that is more than is held already."""
        if self.files is None or not self.copies(salt):
            return
        if self.tree.whole:  # the last token is evaluated for the logits after it
            ids = ids[:-1]
        held = self.count_held(ids, salt)
        if held + LEAST_ON_DISK <= len(ids):
            room = self.budget - self.tree.stored_bytes
            self.add_states(ids, self.files.read(ids, salt, held, room, self.tree.whole), salt)

    def write_story(self, at_end: bool = False) -> None:
        """Hand the visible paths to the story's file, which is written in the background.

        ``at_end``: also states in cells only.
        """
        if self.files is None or (self.files.busy and not at_end):
            return
        self.files.flush()
        found: list[tuple[str, list[NodeState]]] = []
        for ids, salt in itertools.islice(self.visible_paths(), PATHS_ON_DISK):
            node = self.tree.resumable(ids, salt, len(ids))
            for part in self._nodes_of(node) if at_end else ():
                self._save(part)
            while node.parent is not None and node.state is None:
                node = node.parent
            if self.copies(salt):
                found.append((salt, self._states_of(node)))
        self.files.write(found)


def _count_forked(runs: Sequence[Sequence[list[int]]]) -> int:
    """Count the cells of sequences in a memory of whole states, where they are shared by forking only.

    What two sequences evaluated each on its own is there twice, although the tree has it once.
    """
    return sum({id(run): run[0] for of_sequence in runs for run in of_sequence}.values())
