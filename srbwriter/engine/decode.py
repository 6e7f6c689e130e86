"""Fill the batch of the next decode with the first unevaluated tokens of the most urgent demands.

A branch that writes has a row of its own, or shares one with branches that demand the same node. A demand
that lacks several tokens gets a portion of the batch. This module knows demands and rows, not requests,
sampling or text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from .cache import Cache
from .native.context import Context
from .tree import Demand, Key, Node


class Portion(NamedTuple):
    """Tokens of the path of a demand in the batch; their last row is ``row``."""

    demand: Demand
    tokens: list[int]
    row: int
    answers: bool  # whether a demand wants the logits after the last token


class Plan(NamedTuple):
    """The contents of a batch."""

    rows: Sequence[Demand]  # of one token each
    shared: dict[int, list[Demand]]  # further demands on a row
    portions: list[Portion]

    @property
    def prompt_rows(self) -> int:
        return sum(len(p.tokens) for p in self.portions)

    def demands(self) -> Iterable[Demand]:
        """Yield all demands with tokens in the batch."""
        yield from self.rows
        for group in self.shared.values():
            yield from group
        yield from (p.demand for p in self.portions)


SCORED_LOGITS = 6_000_000
"""Logits of a prompt that are scored in one step while branches write, which takes some 10 ms."""


class ChunkBudget:
    """How many prompt tokens fit a slice of time, measured in earlier steps."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.per_token = 0.0  # seconds; 0 while unknown
        self.row_step = 0.0  # seconds of a step in which branches write

    def size(self, writing: bool, abortable: bool) -> int:
        """Return the size of the next chunk in tokens; larger when no branch is writing."""
        if self.per_token == 0.0:
            return min(64, self.most)
        seconds = self.seconds if writing or not abortable else self.seconds * 8
        return max(8, min(self.most, int(seconds / self.per_token)))

    def record(self, seconds: float, prompt_rows: int, branch_rows: int) -> None:
        """Take a step of so many seconds and rows into account."""
        if not prompt_rows:
            self.row_step = _mean(self.row_step, seconds)
        elif prompt_rows >= 8:
            alone = seconds - (self.row_step if branch_rows else 0.0)
            self.per_token = _mean(self.per_token, max(alone, seconds * 0.1) / prompt_rows)


class Decoder:
    """Fills the batch of a context, and records what was decoded."""

    def __init__(self, context: Context, cache: Cache, share: bool) -> None:
        self.context, self.cache = context, cache
        self.scored_rows = max(8, SCORED_LOGITS // context.n_vocab)
        self.share = share  # whether a row may belong to several sequences

    def plan(self, writing: Sequence[Demand], reading: Sequence[Demand], chunk: int) -> Plan:
        """Fill the batch with ``writing``, one token each, and at most ``chunk`` tokens of ``reading``."""
        self.context.batch.clear()
        rows, shared = self._add_rows(writing)
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
            if demand.every_token:
                most = min(room, outputs if not rows else min(outputs, self.scored_rows))
            goal, tip = demand.node, tips[demand.seq]
            assert goal is not None
            path = _path_below(goal, tip)
            step = tip, path[0].key
            if step in under_way and not demand.every_token:
                continue  # another demand evaluates this token in the same step
            tokens, answers = self._next_tokens(path, most)
            under_way.update(_entered_steps(path, len(tokens)))
            wanted = True if demand.every_token else int(answers)
            row = self.context.batch.add_run(tokens, tip.end, demand.seq, wanted)
            portions.append(Portion(demand, tokens, row, answers))
            room -= len(tokens)
            outputs -= len(tokens) if demand.every_token else int(answers)
        return Plan(rows, shared, portions)

    def _next_tokens(self, path: Sequence[Node], most: int) -> tuple[list[int], bool]:
        """Return the next tokens of a path, at most ``most``, and whether they end at a demand.

        They stop at the first demand, and where the memory has to be forked there, at a fork.
        """
        tokens: list[int] = []
        for node in path:
            left = most - len(tokens)
            tokens += node.tokens[:left]
            if len(node.tokens) > left:
                return tokens, False
            if node.demands or self.cache.memory.ends_portion(node):
                return tokens, bool(node.demands)
        return tokens, False

    def _add_rows(self, writing: Sequence[Demand]) -> tuple[Sequence[Demand], dict[int, list[Demand]]]:
        """Add a row for each node of ``writing``; return the demands with rows, and the others by row."""
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

    def record(self, plan: Plan) -> None:
        """Record the rows of a successful decode in the cache."""
        advance, shared = self.cache.advance, plan.shared
        if not shared and not plan.portions:
            self.cache.advance_rows(plan.rows)
            return
        for row, demand in enumerate(plan.rows):
            node = demand.node
            assert node is not None
            seqs = (demand.seq, *(r.seq for r in shared[row])) if row in shared else (demand.seq,)
            advance(seqs, node.tokens, demand.namespace)
        for demand, tokens, _, answers in plan.portions:
            reason = "asked" if demand.every_token else ""
            advance((demand.seq,), tokens, demand.namespace, answered=answers, reason=reason)

    def roll_back(self, plan: Plan) -> None:
        """Drop from the cells what an aborted decode left behind."""
        for demand in plan.demands():
            self.context.remove(demand.seq, self.cache.tree.tip[demand.seq].end)


def _path_below(goal: Node, tip: Node) -> list[Node]:
    """Return the nodes below ``tip`` on the path to ``goal``."""
    path = [goal]
    while (above := path[-1].parent) is not tip:
        assert above is not None
        path.append(above)
    return path[::-1]


def _entered_steps(path: Sequence[Node], tokens: int) -> Iterator[tuple[Node | None, Key]]:
    """Yield the parent and the key of each node that the next ``tokens`` of a path enter.

    There may be several: a prompt that is scored passes through held nodes.
    """
    for node in path:
        if tokens <= 0:
            return
        yield node.parent, node.key
        tokens -= len(node.tokens)


def _mean(old: float, new: float) -> float:
    return new if old == 0.0 else old * 0.8 + new * 0.2
