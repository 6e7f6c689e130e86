"""States of evaluated tokens outside the cells: in host memory and on disk.

On a processor idle text slows every step while it stays in cells, and costs nothing outside them. A state is
restored by copying, which took a 190th to a 2500th of the time of evaluating the tokens again where both were
measured there. Blocks are small, so that no copy delays a step for long. An archive knows nodes and blocks;
the cache decides which tier they are in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .disk import DiskCache, SavedState
from .memory import Memory
from .tree import KVBlock, Namespace, Node

log = logging.getLogger(__name__)

_MOST_FREE_SHARE, _MOST_BYTES = 0.25, 8 << 30


@dataclass(slots=True)
class Traffic:
    """Tokens that were copied or evaluated again, since the engine was loaded."""

    saved_tokens: int = 0
    restored_tokens: int = 0
    damaged: int = 0  # states that could not be read back
    evaluated_again: dict[str, int] = field(default_factory=dict[str, int])  # held tokens, by reason

    def count_evaluated_again(self, reason: str, tokens: int) -> None:
        """Count ``tokens`` that were evaluated although some tier holds them."""
        self.evaluated_again[reason] = self.evaluated_again.get(reason, 0) + tokens


class Archive:
    """Host memory and disk, for states that are not in cells.

    Args:
        budget: bytes of host memory; 0 keeps nothing there.
        protected: gives the nodes that leave host memory last.
    """

    def __init__(
        self, memory: Memory, *, budget: int, disk: DiskCache | None,
        protected: Callable[[], Collection[Node]],
    ) -> None:  # fmt: skip
        self.memory, self.tree, self.budget, self.disk = memory, memory.tree, budget, disk
        self.protected = protected
        self.traffic = Traffic()
        self.bytes_per_token = memory.native.bytes_per_token  # an estimate until a state was saved

    def can_hold(self, tokens: int) -> bool:
        """Whether host memory has room for the states of so many tokens."""
        return self.bytes_per_token * tokens <= self.budget > 0

    # ---- out of the cells

    def save_node(self, node: Node) -> None:
        """Keep the state of a resident node that is not stored; the node may be split into blocks."""
        for part in self.memory.split_blocks(node):
            block = self.memory.save_block(part)
            block.salt = self.tree.namespace_of(part).salt
            self.bytes_per_token = block.size / max(len(block.tokens), 1)
            self.tree.set_block(part, block)
            self.traffic.saved_tokens += len(part.tokens)
            self._shrink()

    def _shrink(self) -> None:
        """Keep to the budget: unload what was used longest ago if it has a file, else drop it."""
        if self.tree.stored_bytes <= self.budget:
            return
        protected = set(self.protected())
        loaded = [n for n in self.tree.nodes() if n.block is not None and n.block.data is not None]
        loaded.sort(key=lambda n: (n in protected, n.last_used, -n.end))  # leaves before their ancestors
        for node in loaded:
            if self.tree.stored_bytes <= self.budget:
                return
            block = node.block
            if block is not None and block.file is not None:
                self.tree.unload_block(block)
            elif block is not None:
                self.tree.drop_block(node)

    # ---- into the cells

    def restore_node(self, seq: int, node: Node) -> bool:
        """Copy the state of a stored node into cells, for ``seq``.

        False when there is no room, or when the state is damaged; it is forgotten then.
        """
        block = node.block
        assert block is not None
        data = self._load(block)
        restored = 0 if data is None else self.memory.restore_block(seq, node, data)
        if restored:
            self.traffic.restored_tokens += restored
            return True
        if data is not None:
            log.warning("a saved state of %d tokens could not be brought back", block.end - block.start)
        self._drop_damaged(node)
        return False

    def _load(self, block: KVBlock) -> NDArray[np.uint8] | None:
        """Return the data of a block, read from its file if need be; None if that is damaged.

        The data stays in host memory if there is room for it.
        """
        if block.data is not None:
            return block.data
        data = None if self.disk is None else self.disk.read(block.file)
        if data is not None and self.tree.stored_bytes + block.size <= self.budget:
            self.tree.load_block(block, data)
        return data

    def _drop_damaged(self, node: Node) -> None:
        self.traffic.damaged += 1
        self.tree.drop_block(node)

    # ---- whole paths

    def collect_states(self, node: Node, salt: str = "") -> list[SavedState]:
        """Return the states from the root to ``node``; none if one of them is not stored, or is damaged.

        A state that reaches into text of another salt counts as not stored.
        """
        found: list[SavedState] = []
        last: KVBlock | None = None
        while node.parent is not None and not (found and found[-1].start == 0):
            block = node.block
            if block is None or block.salt not in ("", salt):
                return []
            if block is not last:
                data = self._load(block)
                if data is None:
                    self._drop_damaged(node)
                    return []
                found.append(SavedState(block.start, block.end, data))
            node, last = node.parent, block
        return found[::-1]

    def add_states(self, ids: Sequence[int], states: Sequence[SavedState], namespace: Namespace) -> None:
        """Keep states that were made of ``ids`` before, where they are not kept already."""
        for state in states:
            tokens = ids[state.start : state.end]
            block = KVBlock(state.start, tokens, state.data, int(state.data.size))
            self._add_block(ids[: state.end], block, namespace)
        self._shrink()

    def _add_block(self, ids: Sequence[int], block: KVBlock, namespace: Namespace) -> None:
        """Keep the state of the end of ``ids``, unless it is kept already or what comes before it is not."""
        block.salt = namespace.salt if len(ids) > namespace.start else ""
        held = self.tree.match_resumable(ids, namespace).length
        if block.start <= held < len(ids):
            self.tree.mark_used(self.tree.add_block(ids, block, namespace))

    # ---- disk

    def write_to_disk(self, node: Node) -> None:
        """Write the state of ``node`` to disk in the background."""
        block = node.block
        if self.disk is None or block is None or block.file is not None or block.data is None:
            return
        namespace = self.tree.namespace_of(node)
        if block.salt != namespace.salt:
            return  # it reaches into text under another salt, and is written with that
        ids, name = ids_through(node, block), _disk_namespace(namespace)
        block.file = self.disk.write(ids[: block.start], ids[block.start :], block.data, name)

    def find_on_disk(self, namespace: Namespace, common: Sequence[int] = ()) -> None:
        """Add what the disk holds of a namespace to the tree; ``common`` tokens come before its start."""
        if self.disk is None:
            return
        for ids, file in self.disk.entries(_disk_namespace(namespace), common):
            block = KVBlock(file.start, ids[file.start :], None, file.size, file)
            self._add_block(ids, block, namespace)


def _disk_namespace(namespace: Namespace) -> str:
    """Return what files of a namespace are bound to; only a hash of it is written."""
    return f"\0{namespace.salt}" if namespace.salt else ""


def ids_through(node: Node, block: KVBlock) -> list[int]:
    """Return all tokens up to the end of ``block``, which is the state of ``node`` or has it as a part."""
    return [*node.token_ids()[: block.start], *block.tokens]


def host_budget(asked: int | None) -> int:
    """Return the bytes of host memory for states: ``asked``, else a quarter of free memory, at most 8 GiB."""
    if asked is not None:
        return asked
    return min(int(_free_memory() * _MOST_FREE_SHARE), _MOST_BYTES)


def all_memory() -> int:
    """Return the bytes of memory that this machine has, or that the control group grants."""
    import psutil

    most = int(psutil.virtual_memory().total)
    try:
        return min(most, int(Path("/sys/fs/cgroup/memory.max").read_text("ascii")))
    except (OSError, ValueError):  # no control group, or "max"
        return most


def _free_memory() -> int:
    """Return the bytes of memory that the system or the control group has left."""
    import psutil

    free = int(psutil.virtual_memory().available)
    group = Path("/sys/fs/cgroup")
    try:
        most, used = (int((group / name).read_text("ascii")) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no control group, or "max"
        return free
    return min(free, max(most - used, 0))
