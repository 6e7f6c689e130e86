"""Which cells the sequences hold of a memory that cannot be cut. Pure Python; knows no tokens.

In such a memory cells are shared by forking a whole sequence and in no other way: what two
sequences evaluated each on its own is there twice, although the prefix tree knows it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class _Stretch:
    """Cells that were evaluated in a row, and the sequences that hold all of them."""

    __slots__ = ("holders", "length")

    def __init__(self, holders: Iterable[int], length: int) -> None:
        self.holders = set(holders)
        self.length = length


class Cells:
    """Account of the cells in use."""

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
