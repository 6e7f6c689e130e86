"""What goes into the next decode: one row a branch, shared while branches agree, and a prompt chunk.

Knows tracks and rows; knows nothing of queues, sampling or text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .active import ActiveBranch, Track, Trunk
from .cache import Cache
from .costs import CostTable
from .native.context import Context
from .tree import Node, common_prefix


class Fed(NamedTuple):
    """``size`` tokens of a track are in the batch; its last row is ``row``."""

    track: Track
    size: int
    row: int
    scored: bool  # every row of it has logits


class Plan(NamedTuple):
    """The batch, in the engine's words."""

    rows: list[ActiveBranch]
    shared: dict[int, list[ActiveBranch]]  # further branches on the same row
    fed: list[Fed]

    @property
    def prompt_rows(self) -> int:
        return sum(f.size for f in self.fed)

    def tracks(self) -> Iterable[Track]:
        """Everyone whose tokens are in it."""
        yield from self.rows
        for group in self.shared.values():
            yield from group
        yield from (f.track for f in self.fed)


SCORED = 6_000_000
"""Logits of a prompt that are scored in one step while branches write: some 10 ms."""


class ChunkBudget:
    """How many prompt tokens fit a slice of time, learnt from the steps before."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.per_token = 0.0  # seconds; 0 while unknown
        self._row_step = 0.0

    def size(self, writing: bool, abortable: bool) -> int:
        """Tokens for the next chunk. Nobody is kept waiting when no branch writes, so then more."""
        if self.per_token == 0.0:
            return min(64, self.most)
        seconds = self.seconds if writing or not abortable else self.seconds * 8
        return max(8, min(self.most, int(seconds / self.per_token)))

    def learn(self, seconds: float, prompt_rows: int, branch_rows: int) -> None:
        if not prompt_rows:
            self._row_step = _mean(self._row_step, seconds)
        elif prompt_rows >= 8:
            alone = seconds - (self._row_step if branch_rows else 0.0)
            self.per_token = _mean(self.per_token, max(alone, seconds * 0.1) / prompt_rows)


class Decoder:
    """Fills the context's batch."""

    def __init__(self, context: Context, cache: Cache, share: bool) -> None:
        self.context, self.cache = context, cache
        self.scored_rows = max(8, SCORED // context.n_vocab)
        self.share = share  # whether the memory takes rows of several sequences
        self.costs: CostTable | None = None

    def plan(self, writing: Sequence[ActiveBranch], feeding: Sequence[Track], chunk: int) -> Plan:
        """At most ``chunk`` tokens of ``feeding``, first come first; all of ``writing``."""
        batch = self.context.batch
        batch.clear()
        for track in feeding:
            if not _scored(track):
                track.todo = track.todo[self.cache.follow(track.seq, track.todo[:-1]) :]
        rows, shared, under_way = self._branch_rows(writing)
        fed: list[Fed] = []
        outputs = self.context.max_outputs - len(rows)
        room = min(chunk, self.context.max_rows - len(rows))
        for track in feeding:
            if room <= 0 or outputs <= 0:
                break
            scored = _scored(track)
            if not scored:
                begins = self.cache.tree.tip[track.seq], track.todo[0]
                if begins in under_way:
                    continue  # another evaluates it in this very step, and it is there in the next
                under_way.add(begins)
            most = outputs if not rows else min(outputs, self.scored_rows)
            count = min(len(track.todo), room, most if scored else room)
            if not self.cache.partial and not scored:
                count = min(count, self._alike(track, feeding))
            tokens = track.todo[:count]
            last = count == len(track.todo)
            start = self.cache.tree.tip[track.seq].end
            row = batch.add_run(tokens, start, track.seq, True if scored else int(last))
            fed.append(Fed(track, count, row, scored))
            room -= count
            outputs -= count if scored else int(last)
        return Plan(rows, shared, fed)

    def pad(self, plan: Plan) -> int:
        """Add rows of nothing where the step takes less time with them; how many."""
        rows = len(plan.rows)
        if self.costs is None or plan.fed or not rows or not self.cache.partial:
            return 0
        more = self.costs.padded(rows) - rows
        free = self.context.cells - self.cache.used_cells - rows
        if more <= 0 or more > free or rows + more > self.context.max_outputs:
            return 0
        self.context.pad(more)
        return more

    def _alike(self, track: Track, feeding: Sequence[Track]) -> int:
        """Tokens of ``track`` up to where others that follow it turn off, and fork its state."""
        tip, todo = self.cache.tree.tip, track.todo
        lengths = (
            common_prefix(todo, other.todo, 0, len(other.todo) - 1)
            for other in feeding
            if other is not track and tip[other.seq] is tip[track.seq]
        )
        return min((length for length in lengths if length), default=len(todo))

    def _branch_rows(
        self, writing: Sequence[ActiveBranch]
    ) -> tuple[list[ActiveBranch], dict[int, list[ActiveBranch]], set[tuple[Node, int]]]:
        """Branches with a row of their own, those that share it, and what is evaluated after which node."""
        tip = self.cache.tree.tip
        rows: list[ActiveBranch] = []
        tokens: list[int] = []
        positions: list[int] = []
        seqs: list[int] = []
        shared: dict[int, list[ActiveBranch]] = {}
        seen: dict[tuple[Node, int], int] = {}
        for active in writing:
            node = tip[active.seq]
            token = active.todo[0]
            if len(node.tips) > 1 and self.share:
                row = seen.setdefault((node, token), len(rows))
                if row != len(rows):
                    shared.setdefault(row, []).append(active)
                    continue
            rows.append(active)
            tokens.append(token)
            positions.append(node.end)
            seqs.append(active.seq)
        if rows:
            batch = self.context.batch
            batch.add_rows(tokens, positions, seqs)
            for row, others in shared.items():
                batch.share(row, [rows[row].seq, *(r.seq for r in others)])
        return rows, shared, set(seen)

    def settle(self, plan: Plan) -> None:
        """The decode went well: the tree learns of the rows."""
        advance = self.cache.advance
        for row, active in enumerate(plan.rows):
            others = plan.shared.get(row) if plan.shared else None
            seqs = (active.seq,) if others is None else (active.seq, *(r.seq for r in others))
            advance(seqs, active.todo)
        for fed in plan.fed:
            track = fed.track
            last = fed.size == len(track.todo)
            reason = "asked" if fed.scored else ""
            advance((track.seq,), track.todo[: fed.size], answered=last, reason=reason)
            track.todo = track.todo[fed.size :]

    def roll_back(self, plan: Plan) -> None:
        """The decode was aborted: drop whatever it left behind, as if it had not begun."""
        for track in plan.tracks():
            self.context.remove(track.seq, self.cache.tree.tip[track.seq].end)


def _scored(track: Track) -> bool:
    """Whether every token of it needs logits, whatever is held of them."""
    return isinstance(track, Trunk) and track.request.scoring


def _mean(old: float, new: float) -> float:
    return new if old == 0.0 else old * 0.8 + new * 0.2
