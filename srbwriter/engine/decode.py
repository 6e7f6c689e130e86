"""What goes into the next decode: the first absent nodes on the way of what is wanted most.

A branch that writes has a row of its own, or shares one with those that want the same node. What is on its
way over several tokens gets a portion of the batch. Knows demands and rows; knows no requests, no sampling
and no text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .cache import Cache
from .native.context import Context
from .tree import Demand, Key, Node


class Portion(NamedTuple):
    """Tokens of the way of a demand are in the batch; their last row is ``row``."""

    demand: Demand
    tokens: list[int]
    row: int
    answers: bool  # it ends where somebody wants to know what follows


class Plan(NamedTuple):
    """The batch, in the engine's words."""

    rows: Sequence[Demand]  # each wants one token
    shared: dict[int, list[Demand]]  # further ones on the same row
    portions: list[Portion]

    @property
    def prompt_rows(self) -> int:
        return sum(len(p.tokens) for p in self.portions)

    def demands(self) -> Iterable[Demand]:
        """All whose tokens are in it."""
        yield from self.rows
        for group in self.shared.values():
            yield from group
        yield from (p.demand for p in self.portions)


SCORED = 6_000_000
"""Logits of a prompt that are scored in one step while branches write: some 10 ms."""


class ChunkBudget:
    """How many prompt tokens fit a slice of time, learnt from the steps before."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.per_token = 0.0  # seconds; 0 while unknown
        self.row_step = 0.0  # seconds of a step in which branches write

    def size(self, writing: bool, abortable: bool) -> int:
        """Tokens for the next chunk. Nobody is kept waiting when no branch writes, so then more."""
        if self.per_token == 0.0:
            return min(64, self.most)
        seconds = self.seconds if writing or not abortable else self.seconds * 8
        return max(8, min(self.most, int(seconds / self.per_token)))

    def learn(self, seconds: float, prompt_rows: int, branch_rows: int) -> None:
        if not prompt_rows:
            self.row_step = _mean(self.row_step, seconds)
        elif prompt_rows >= 8:
            alone = seconds - (self.row_step if branch_rows else 0.0)
            self.per_token = _mean(self.per_token, max(alone, seconds * 0.1) / prompt_rows)


class Decoder:
    """Fills the context's batch."""

    def __init__(self, context: Context, cache: Cache, share: bool) -> None:
        self.context, self.cache = context, cache
        self.scored_rows = max(8, SCORED // context.n_vocab)
        self.share = share  # whether the memory takes rows of several sequences

    def plan(self, writing: Sequence[Demand], reading: Sequence[Demand], chunk: int) -> Plan:
        """All of ``writing``, whose nodes are one token each, and ``chunk`` tokens of ``reading`` at most."""
        self.context.batch.clear()
        rows, shared = self._rows(writing)
        portions: list[Portion] = []
        if not reading:
            return Plan(rows, shared, portions)
        tips = self.cache.tree.tip
        under_way: set[tuple[Node | None, Key | None]] = {(tips[d.seq], d.node and d.node.key) for d in rows}
        outputs = self.context.max_outputs - len(rows)
        room = min(chunk, self.context.max_rows - len(rows))
        for demand in reading:
            if room <= 0 or outputs <= 0:
                break
            most = room
            if demand.every:
                most = min(room, outputs if not rows else min(outputs, self.scored_rows))
            else:
                self.cache.catch_up(demand)
            goal, tip = demand.node, tips[demand.seq]
            assert goal is not None
            way = _way(goal, tip)
            step = tip, way[0].key
            if step in under_way and not demand.every:
                continue  # another evaluates it in this very step, and it is there in the next
            tokens, answers = self._tokens(way, most)
            under_way.update(_steps(way, len(tokens)))
            wanted = True if demand.every else int(answers)
            row = self.context.batch.add_run(tokens, tip.end, demand.seq, wanted)
            portions.append(Portion(demand, tokens, row, answers))
            room -= len(tokens)
            outputs -= len(tokens) if demand.every else int(answers)
        return Plan(rows, shared, portions)

    def _tokens(self, way: Sequence[Node], most: int) -> tuple[list[int], bool]:
        """The next tokens of a way, to where somebody wants to know what follows; whether they get there.

        Where states are whole, also to where ways part, so that others can fork it there.
        """
        tokens: list[int] = []
        for node in way:
            left = most - len(tokens)
            tokens += node.tokens[:left]
            if len(node.tokens) > left:
                return tokens, False
            if node.demands or (not self.cache.partial and len(node.children) > 1):
                return tokens, bool(node.demands)
        return tokens, False

    def _rows(self, writing: Sequence[Demand]) -> tuple[Sequence[Demand], dict[int, list[Demand]]]:
        """Those with a row of their own, and those that share it."""
        rows: list[Demand] = []
        tokens: list[int] = []
        positions: list[int] = []
        seqs: list[int] = []
        shared: dict[int, list[Demand]] = {}
        seen: dict[Node, int] = {}
        for demand in writing:
            node = demand.node
            assert node is not None
            if len(node.demands) > 1 and self.share:
                row = seen.setdefault(node, len(rows))
                if row != len(rows):
                    shared.setdefault(row, []).append(demand)
                    continue
            rows.append(demand)
            tokens.append(node.tokens[0])
            positions.append(node.end - 1)
            seqs.append(demand.seq)
        if rows:
            batch = self.context.batch
            batch.add_rows(tokens, positions, seqs)
            for row, others in shared.items():
                batch.share(row, [rows[row].seq, *(r.seq for r in others)])
        return rows, shared

    def settle(self, plan: Plan) -> None:
        """The decode went well: the tree learns of the rows."""
        advance, shared = self.cache.advance, plan.shared
        for row, demand in enumerate(plan.rows):
            node = demand.node
            assert node is not None
            seqs = (demand.seq, *(r.seq for r in shared[row])) if row in shared else (demand.seq,)
            advance(seqs, node.tokens, demand.namespace)
        for demand, tokens, _, answers in plan.portions:
            reason = "asked" if demand.every else ""
            advance((demand.seq,), tokens, demand.namespace, answered=answers, reason=reason)

    def roll_back(self, plan: Plan) -> None:
        """The decode was aborted: drop whatever it left behind, as if it had not begun."""
        for demand in plan.demands():
            self.context.remove(demand.seq, self.cache.tree.tip[demand.seq].end)


def _way(goal: Node, tip: Node) -> list[Node]:
    """Nodes from below ``tip`` to ``goal``."""
    way = [goal]
    while (above := way[-1].parent) is not tip:
        assert above is not None
        way.append(above)
    return way[::-1]


def _steps(way: Sequence[Node], tokens: int) -> Iterator[tuple[Node | None, Key]]:
    """From which node with which token each node begins that the first ``tokens`` of a way lead to.

    More than one: a prompt that is scored goes through nodes that are held, where others go on from.
    """
    for node in way:
        if tokens <= 0:
            return
        yield node.parent, node.key
        tokens -= len(node.tokens)


def _mean(old: float, new: float) -> float:
    return new if old == 0.0 else old * 0.8 + new * 0.2
