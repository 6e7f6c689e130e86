"""Slots as llama.cpp's clients know them: numbered places in the batch, and names for cached prefixes.

The engine has no slots. A number here is handed to a branch while it is written; the text it leaves
behind can be pinned in the engine's cache under that number, for a client that comes back to its slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from srbwriter.engine.generation import Branch

from .registry import Record


@dataclass(slots=True)
class Slot:
    """``record`` and ``branch`` are the latest that had the number."""

    id: int
    record: Record | None = None
    index: int = 0
    pinned: bool = False

    @property
    def branch(self) -> Branch | None:
        if self.record is None:
            return None
        branches = self.record.generation.branches
        return branches[self.index] if self.index < len(branches) else None

    @property
    def busy(self) -> bool:
        branch = self.branch
        return branch is not None and branch.live

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens that the slot's latest branch left in the cache."""
        branch = self.branch
        if self.record is None or branch is None:
            return ()
        return (*self.record.generation.prompt_ids, *branch.ids)


class Slots:
    """As many as branches may be live. Used from the server's loop only."""

    def __init__(self) -> None:
        self._slots: list[Slot] = []

    def all(self, count: int) -> list[Slot]:
        while len(self._slots) < count:
            self._slots.append(Slot(len(self._slots)))
        return self._slots[:count]

    def idle(self, count: int) -> int:
        return sum(not slot.busy for slot in self.all(count))

    def assign(self, record: Record, count: int, wanted: int = -1) -> list[int]:
        """A number for every branch of a record: from ``wanted`` on if given, else idle ones first."""
        slots = self.all(count)
        order = sorted(slots, key=lambda slot: (slot.busy, slot.record is not None, slot.id))
        if 0 <= wanted < count:
            order = slots[wanted:] + slots[:wanted]
        numbers: list[int] = []
        for index, _ in enumerate(record.generation.branches):
            slot = order[index % len(order)]
            slot.record, slot.index = record, index
            numbers.append(slot.id)
        return numbers
