"""Sampling in llama.cpp's graph, beside the logits, for branches whose samplers can run there.

Each sequence that takes part has a seat: a copy of its branch's chain, held by llama.cpp. The branch's chain
is what counts: it gives its seat its state before a step and takes chance back after it. So a branch can be
stopped, steered or sampled otherwise between any two steps. To attach or detach a seat makes llama.cpp plan
its memory anew (5 to 150 ms): seats stay with their sequences, for the next that samples alike.

Where every row is sampled in the graph, no logits come back from the accelerator. Where somebody needs them,
a row of nothing is added: llama.cpp brings all as soon as one row is of a sequence without a seat.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Hashable
from math import isnan

from .active import ActiveBranch
from .cache import Cache
from .decode import Plan
from .generation import Branch
from .native import samplers as native
from .native.context import Context
from .native.samplers import Sampler
from .sampling import Chain
from .sampling_loop import BROKEN

log = logging.getLogger(__name__)

SPARE_SEATS = 8
"""Seats beyond two for each row: each adds some twenty nodes to the graph, with or without a row."""


class _Seat:
    """A copy of chains that sample alike, attached to one sequence."""

    __slots__ = ("kind", "pointer")

    def __init__(self, chain: Chain) -> None:
        self.kind: Hashable = chain.kind
        self.pointer: Sampler = native.clone(chain.pointer)  # one that was attached cannot be again


class BackendSampling:
    """The seats of one context whose sequences have one id each. Belongs to the engine's thread."""

    def __init__(self, context: Context, cache: Cache) -> None:
        self.context, self.cache = context, cache
        self._seats: dict[int, _Seat] = {}  # by sequence
        self._rows: dict[ActiveBranch, int] = {}  # branches that the next decode samples for, or the last one
        self._refused = False  # by llama.cpp, for how the model is split

    # ---- before a decode

    def prepare(self, plan: Plan) -> int:
        """Choose the branches that are sampled in the graph; return how many rows of nothing were added."""
        self._rows = self._chosen(plan)
        if not self._logits_can_come(plan):
            self._rows = {}
            self.clear()
        for portion in plan.portions:
            if portion.demand.every:
                self._detach(portion.demand.seq)  # a seat takes one row
        if not self._attach(plan):
            self._rows = {}
        self.context.has_logits = self._logits_wanted(plan)
        padded = int(self.context.has_logits and bool(self._seats))
        if padded:
            self.context.pad(padded)
        for active in self._rows:
            assert active.chain is not None
            active.chain.lend(self._seats[active.seq].pointer)
        return padded

    def _logits_wanted(self, plan: Plan) -> bool:
        others = len(self._rows) < len(plan.rows)
        return others or any(p.answers or p.demand.every for p in plan.portions)

    def _logits_can_come(self, plan: Plan) -> bool:
        """Whether there is room for a row of nothing, if logits are wanted, among those computed at once."""
        if not self._logits_wanted(plan):
            return True
        context, rows = self.context, len(plan.rows) + plan.prompt_rows
        outputs = len(plan.rows)
        outputs += sum(len(p.tokens) if p.demand.every else int(p.answers) for p in plan.portions)
        room = min(context.rows_at_once, context.cells - self.cache.used_cells)
        return rows < room and outputs < context.max_outputs

    def _chosen(self, plan: Plan) -> dict[ActiveBranch, int]:
        """Branches with a row to themselves, whose chains the graph knows, and nobody beside them."""
        return {
            demand: row
            for row, demand in enumerate(plan.rows if not self._refused else ())
            if isinstance(demand, ActiveBranch)
            and demand.fast
            and not demand.prompting
            and demand.chain is not None
            and demand.chain.kind is not None
            and row not in plan.shared
            and demand.node is not None
            and len(demand.node.demands) == 1
        }

    def _attach(self, plan: Plan) -> bool:
        """Give everyone who was chosen a seat; False where llama.cpp has none to give."""
        seats = self._seats
        new: list[ActiveBranch] = []
        for active in self._rows:
            assert active.chain is not None
            seat, kind = seats.get(active.seq), active.chain.kind
            if seat is not None and (seat.kind is kind or seat.kind == kind):
                seat.kind = kind  # which is found sooner than an equal one
            else:
                new.append(active)
        if new and len(seats) > 2 * len(plan.rows) + SPARE_SEATS:
            for seq in set(seats) - {active.seq for active in self._rows}:
                self._detach(seq)
        for active in new:
            assert active.chain is not None
            self._detach(active.seq)
            seat = _Seat(active.chain)
            if not self.context.attach(active.seq, seat.pointer):
                log.warning("this model is split in a way that leaves sampling to the processor")
                native.free(seat.pointer)
                self._refused = True
                self.clear()
                return False
            seats[active.seq] = seat
        return True

    # ---- after it

    def tokens(self, stopped: Container[Branch]) -> dict[ActiveBranch, int]:
        """What the last decode sampled, and for whom; BROKEN where the model's row is none to choose by.

        Who has been ``stopped`` has drawn nothing.
        """
        found: dict[ActiveBranch, int] = {}
        for active, row in self._rows.items():
            if active.branch in stopped or active.seq < 0 or active.chain is None:
                continue
            seat = self._seats[active.seq].pointer
            token, likeliest = self.context.sampled(seat, row)
            active.chain.take_back(seat, token)
            found[active] = BROKEN if isnan(likeliest) else token
        return found

    @property
    def seated(self) -> bool:
        """Whether any row may have been sampled in the graph: then it is for its own branch only."""
        return bool(self._seats)

    # ---- the end

    def clear(self) -> None:
        """Detach all seats: every decode brings logits again."""
        for seq in list(self._seats):
            self._detach(seq)
        self.context.has_logits = True

    def _detach(self, seq: int) -> None:
        seat = self._seats.pop(seq, None)
        if seat is not None:
            self.context.attach(seq, None)
            native.free(seat.pointer)
