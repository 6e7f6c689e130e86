"""The account of cells that cannot be shared afterwards, against sets of the cells themselves."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from srbwriter.engine.memory import SharedCells
from tests.sizes import examples


class CellsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.account = SharedCells()
        self.cells: dict[int, list[object]] = {}

    @rule(data=st.data(), fresh=st.booleans())
    def fork(self, data: st.DataObject, fresh: bool) -> None:
        target = next(s for s in range(100) if s not in self.cells)
        source = None if fresh or not self.cells else data.draw(st.sampled_from(sorted(self.cells)))
        self.account.fork(source, target)
        self.cells[target] = [] if source is None else list(self.cells[source])

    @precondition(lambda self: self.cells)
    @rule(data=st.data(), count=st.integers(1, 9), alone=st.booleans())
    def grow(self, data: st.DataObject, count: int, alone: bool) -> None:
        """A sequence, or all that have come as far, as on the rows that branches share."""
        seq = data.draw(st.sampled_from(sorted(self.cells)))
        length = len(self.cells[seq])
        seqs = [seq] if alone else [s for s, held in self.cells.items() if len(held) == length]
        self.account.grow(seqs, count)
        new = [object() for _ in range(count)]
        for each in seqs:
            self.cells[each] += new

    @precondition(lambda self: self.cells)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        seq = data.draw(st.sampled_from(sorted(self.cells)))
        self.account.release(seq)
        del self.cells[seq]

    @precondition(lambda self: self.cells)
    @rule(data=st.data())
    def idle(self, data: st.DataObject) -> None:
        parked = data.draw(st.sets(st.sampled_from(sorted(self.cells))))
        others = {cell for seq, held in self.cells.items() if seq not in parked for cell in held}
        alone = {cell for seq in parked for cell in self.cells[seq]} - others
        assert self.account.count_idle_cells(parked) == len(alone)

    @invariant()
    def every_cell_is_counted_once(self) -> None:
        assert self.account.cells == len({cell for held in self.cells.values() for cell in held})


TestCells = CellsMachine.TestCase
TestCells.settings = settings(max_examples=examples(60, few=10), stateful_step_count=30, deadline=None)
