"""States of evaluated tokens outside the cells: in host memory and on disk.

What nobody runs costs every step while it stays in cells, and nothing outside them; brought back it is
always copied, never evaluated: a copy took a 190th to a 2500th of the time where both were measured. Pieces
are small, so that no copy holds a step up for long. Knows nodes and states; who lives where is decided by the
cache.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .disk import DiskCache, Part
from .tree import Namespace, Node, Piece, TokenTree

log = logging.getLogger(__name__)

PIECE = 128
"""Tokens of a piece, at most, and of a file on disk. Where cells of several branches lie in turns, which is
the slowest case, copying that many takes some 25 ms of a model of 135M."""
_MOST_FREE_SHARE, _MOST_BYTES = 0.25, 8 << 30


class States(Protocol):
    """What is asked of a native context."""

    cuttable: bool
    window: int

    def save(self, seq: int, start: int, end: int) -> NDArray[np.uint8]: ...
    def restore(
        self, data: NDArray[np.uint8], start: int, end: int, seq: int, first: int, last: int
    ) -> bool: ...


@dataclass(slots=True)
class Traffic:
    """What went through, since the engine was loaded."""

    saved_tokens: int = 0
    restored_tokens: int = 0
    damaged: int = 0  # states that could not be read back
    evaluated_again: dict[str, int] = field(default_factory=dict[str, int])  # tokens, by reason

    def count(self, reason: str, tokens: int) -> None:
        """``tokens`` were evaluated that some tier holds."""
        self.evaluated_again[reason] = self.evaluated_again.get(reason, 0) + tokens


class Storage:
    """Host memory and disk beneath the cells.

    Args:
        budget: bytes of host memory; 0 keeps nothing there.
        protected: gives the nodes that leave memory last.
        evaluated_with: names what a namespace is evaluated with, beside the model; files are bound to it.
    """

    def __init__(
        self, states: States, tree: TokenTree, *, budget: int, disk: DiskCache | None,
        protected: Callable[[], Collection[Node]], evaluated_with: Callable[[Namespace], str],
    ) -> None:  # fmt: skip
        self.states, self.tree, self.budget, self.disk = states, tree, budget, disk
        self.protected, self.evaluated_with = protected, evaluated_with
        self.traffic = Traffic()

    # ---- out of the cells

    def save(self, node: Node) -> None:
        """Keep the state of a resident node that has none stored, in pieces that a step can wait for.

        The node is cut at multiples of their length; it remains the last of them.
        """
        if not self.states.cuttable:
            self._save(node, next(iter(node.tips)))
            return
        window = self.states.window
        length = PIECE if not window or window % PIECE == 0 else window
        while (boundary := (node.start // length + 1) * length) < node.end:
            upper = self.tree.split(node, boundary - node.start)
            self._save(upper, next(iter(upper.seqs)))
        self._save(node, next(iter(node.seqs)))

    def _save(self, node: Node, seq: int) -> None:
        start, tokens = (node.start, node.tokens) if self.states.cuttable else (0, node.ids())
        data = self.states.save(seq, start, node.end)
        salt = self.tree.namespace_of(node).salt
        self.tree.store(node, Piece(start, tokens, data, int(data.size), salt=salt))
        self.traffic.saved_tokens += len(node.tokens)
        self._shrink()

    def _shrink(self) -> None:
        """Within the budget again: what was used longest ago goes to where its file is, or away."""
        if self.tree.stored_bytes <= self.budget:
            return
        kept = set(self.protected())
        in_memory = [n for n in self.tree.stored() if n.piece is not None and n.piece.data is not None]
        in_memory.sort(key=lambda n: (n in kept, n.last_used, -n.end))  # leaves before what they hang on
        for node in in_memory:
            if self.tree.stored_bytes <= self.budget:
                return
            piece = node.piece
            if piece is not None and piece.file is not None:
                self.tree.unload(piece)
            elif piece is not None:
                self.tree.unstore(node)

    # ---- back

    def restore(self, seq: int, node: Node) -> bool:
        """Bring the state of one stored node back into cells, for ``seq``.

        False when it is damaged, and forgotten, or when there is no room.
        """
        piece = node.piece
        assert piece is not None
        data = piece.data
        if data is None:
            data = self._read(piece)
            if data is None:
                self._lose(node)
                return False
        first = node.start if self.states.cuttable else 0
        if not self.states.restore(data, piece.start, piece.end, seq, first, node.end):
            log.warning("a saved state of %d tokens could not be brought back", piece.end - piece.start)
            self._lose(node)
            return False
        self.traffic.restored_tokens += node.end - first
        return True

    def _read(self, piece: Piece) -> NDArray[np.uint8] | None:
        """What the file of a piece holds, in memory again if there is room for it."""
        data = None if self.disk is None else self.disk.read(piece.file)
        if data is not None and self.tree.stored_bytes + piece.size <= self.budget:
            self.tree.load(piece, data)
        return data

    def _lose(self, node: Node) -> None:
        self.traffic.damaged += 1
        self.tree.unstore(node)

    # ---- whole paths

    def parts(self, node: Node, salt: str = "") -> list[Part]:
        """The states from the root to ``node``; none if one of them is not stored, or cannot be read.

        One that reaches into text of another salt is as if it were not stored.
        """
        found: list[Part] = []
        last: Piece | None = None
        while node.parent is not None and not (found and found[-1].start == 0):
            piece = node.piece
            if piece is None or piece.salt not in ("", salt):
                return []
            if piece is not last:
                data = piece.data if piece.data is not None else self._read(piece)
                if data is None:
                    self._lose(node)
                    return []
                found.append(Part(piece.start, piece.end, data))
            node, last = node.parent, piece
        return found[::-1]

    def adopt(self, ids: Sequence[int], parts: Sequence[Part], namespace: Namespace) -> None:
        """Keep states that were made of ``ids`` before, where they are not kept already."""
        for part in parts:
            piece = Piece(part.start, ids[part.start : part.end], part.state, int(part.state.size))
            self._plant(ids[: part.end], piece, namespace)
        self._shrink()

    def _plant(self, ids: Sequence[int], piece: Piece, namespace: Namespace) -> None:
        """Keep the state of the end of ``ids``, unless it is kept already, or what it hangs on is not."""
        piece.salt = namespace.salt if len(ids) > namespace.start else ""
        find = self.tree.match if self.states.cuttable else self.tree.anchored
        held = find(ids, None, namespace).length
        if held == len(ids) or (self.states.cuttable and held < piece.start):
            return
        self.tree.touch(self.tree.plant(ids, piece, namespace))

    # ---- to disk

    def to_disk(self, node: Node) -> None:
        """Write the state of ``node`` to disk in the background."""
        piece = node.piece
        if self.disk is None or piece is None or piece.file is not None or piece.data is None:
            return
        namespace = self.tree.namespace_of(node)
        if piece.salt != namespace.salt:
            return  # it reaches into text that is not common, and is written with that
        ids, name = ids_through(node, piece), self._name(namespace)
        piece.file = self.disk.write(ids[: piece.start], ids[piece.start :], piece.data, name)

    def from_disk(self, namespace: Namespace, common: Sequence[int] = ()) -> None:
        """Make the tree know what the disk holds of a namespace; ``common`` tokens stand before its start."""
        if self.disk is None:
            return
        for ids, file in self.disk.entries(self._name(namespace), common):
            self._plant(ids, Piece(file.start, ids[file.start :], None, file.size, file), namespace)

    def _name(self, namespace: Namespace) -> str:
        """Return what files of a namespace are bound to; only a hash of it is written."""
        evaluated_with = self.evaluated_with(namespace)
        return f"{evaluated_with}\0{namespace.salt}" if namespace.salt else evaluated_with


def ids_through(node: Node, piece: Piece) -> list[int]:
    """All tokens up to the end of the state that ``node`` has, or has a part of."""
    return [*node.ids()[: piece.start], *piece.tokens]


def host_budget(asked: int | None) -> int:
    """Bytes of host memory for states: as ``asked``, else a quarter of what is free, at most 8 GiB."""
    if asked is not None:
        return asked
    return min(int(_free_memory() * _MOST_FREE_SHARE), _MOST_BYTES)


def _free_memory() -> int:
    """Bytes that programs can still have, as the system or the control group says; 4 GiB if neither does."""
    free = 4 << 30
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    free = int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        group = Path("/sys/fs/cgroup")
        most, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, max(most - used, 0))
    except (OSError, ValueError):  # no control group, or "max"
        pass
    return free
