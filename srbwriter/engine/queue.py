"""Who is running, who waits, and who gives way to whom.

A branch that has something to write waits until it is let in: by priority, then who has least, then who has
waited longest. What runs is shared between clients first, then between a client's requests, then between
their branches: nobody waits for long because another asked for much. Knows nothing of batches.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from .active import ActiveBranch, ActiveRequest, Scoring, waiting
from .cache import Cache
from .sampling_loop import SamplingLoop
from .tree import Demand, Key, Node
from .types import BranchState, EngineError, FinishReason, Priority

QUANTUM = 8
"""Tokens that a branch may write before somebody who has nothing running takes its place."""
READ_PER_WRITTEN = 8
"""Tokens of a prompt that are read in about the time in which one is written."""
RESERVE = 16  # cells a branch should find free before it is let in
SHORT = 64
"""Tokens of a prompt that do not keep others waiting."""
AHEAD_WAITS = 0.1
"""Seconds without anything else to do before what may be wanted is written ahead: who asks for one thing
after the other finds the engine free each time."""
AHEAD_WAITS_MOST = 64
"""Times as long as that, once those who ask come again and again: it is doubled by each that breaks in."""
SECOND_THOUGHTS = 0.15
"""Seconds that a request waits while a more important one writes. Programs that complete while somebody types
ask and cancel ten times in that; each time they would cost the writer a step."""


Step: TypeAlias = "tuple[Node, Key]"
"""A node and the token that is evaluated after it; -1 for its own last one, once more."""


class Shares:
    """How many branches each client, and each request, has running."""

    def __init__(self, running: list[ActiveBranch]) -> None:
        self.of_clients: Counter[Hashable] = Counter(r.request.client for r in running)
        self.of_requests: Counter[Hashable] = Counter(r.request for r in running)

    def of(self, request: ActiveRequest) -> tuple[int, int]:
        """Lower is served first."""
        return self.of_clients[request.client], self.of_requests[request]


class Queue:
    """Lists of what runs, and the moves that keep them true.

    Args:
        window: how many positions one branch may use.
    """

    def __init__(
        self, loop: SamplingLoop, cache: Cache, *, window: int, cells: int, max_branches: int
    ) -> None:
        self.loop, self.cache, self.tree = loop, cache, cache.tree
        self.window, self.cells, self.max_branches = window, cells, max_branches
        self.requests: list[ActiveRequest] = []
        self.writing: list[ActiveBranch] = []  # one token to evaluate each
        self.reading: deque[Demand] = deque()  # on their way over more than one
        self.asking: list[ActiveBranch] = []  # none before a slow grammar has been asked
        self.steady = False  # whether the next step is like the last: all write on, and nobody waits
        self.step = 0  # of the engine
        self.second_thoughts = SECOND_THOUGHTS
        self.ahead_waits = AHEAD_WAITS
        self.broken_in = 1  # by what the wait is multiplied; 1 again once the writer has asked for something
        self.worked_at = float("-inf")  # when anything else than writing ahead was last done
        self.elsewhere: Callable[[], bool] = lambda: False  # whether the model works beside the batch
        self.held_back_until = float("-inf")  # somebody else needs the cores till then
        self.held_up = False  # no room was found for somebody when it was last looked for
        self.crowded = False  # no room was found for what runs ahead; it rests until there is something new
        self.prompt_tokens = 0
        self.reused_tokens = 0

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.reading or self.asking)

    @property
    def all_write(self) -> bool:
        """Whether everyone writes and has a row in every step, and no request has just ended."""
        if self.reading or self.asking or not self.writing or not all(r.live for r in self.requests):
            return False
        return not self.ahead_runs and not any(
            r.asked.strict or r.asked.priority is Priority.BACKGROUND or any(map(waiting, r.branches))
            for r in self.requests
            if r.asked.priority is not Priority.AHEAD
        )

    @property
    def left_waiting(self) -> bool:
        """Whether the last one that ran made room for one that waits, which nobody has let in yet."""
        return not self.busy and any(waiting(r) for request in self._wanted for r in request.branches)

    def wanted(self) -> bool:
        """Whether there is a request whose text somebody wants now."""
        return bool(self._wanted)

    @property
    def _wanted(self) -> list[ActiveRequest]:
        """Requests whose text somebody wants now."""
        return [r for r in self.requests if r.asked.priority is not Priority.AHEAD]

    @property
    def _ahead(self) -> list[Demand]:
        """Demands under way that nobody waits for."""
        return [d for d in (*self.writing, *self.reading, *self.asking) if d.urgency is Priority.AHEAD]

    @property
    def ahead_runs(self) -> bool:
        """Whether what runs is written ahead; nothing else does then."""
        first = next(chain(self.writing, self.reading, self.asking), None)
        return first is not None and first.urgency is Priority.AHEAD

    @property
    def pressing(self) -> bool:
        """Whether there is anything to do that somebody wants now."""
        if self.elsewhere() or any(
            d.urgency is not Priority.AHEAD for d in (*self.writing, *self.reading, *self.asking)
        ):
            return True
        return any(waiting(r) for request in self._wanted for r in request.branches)

    def rest(self, now: float) -> float | None:
        """Seconds until what is written ahead may begin; None where that is not a question of time.

        0 where it may: the time came after the last step had begun.
        """
        if (
            self.crowded
            or self.held_up
            or self.busy
            or not any(
                waiting(r) for q in self.requests if q.asked.priority is Priority.AHEAD for r in q.branches
            )
        ):
            return None
        if self.elsewhere():
            self.worked_at = now
        left = max(self.worked_at + self.ahead_waits * self.broken_in, self.held_back_until) - now
        if left <= 0 and any(waiting(r) for request in self._wanted for r in request.branches):
            return None  # it is for them to begin first
        return max(left, 0.0)

    @property
    def _may_run_ahead(self) -> bool:
        return not self.pressing and not self.crowded and not self.rest(self.loop.now)

    def stand_aside(self) -> None:
        """What is written ahead gives way as soon as anybody wants something else."""
        ahead = self._ahead
        if ahead and self.pressing and all(r.asked.priority is not Priority.FOREGROUND for r in self._wanted):
            self.broken_in = min(2 * self.broken_in, AHEAD_WAITS_MOST)
        if ahead and (self.pressing or self.loop.now < self.held_back_until):
            for demand in ahead:
                self.suspend(demand)

    @property
    def running(self) -> list[ActiveBranch]:
        """Branches on a sequence of their own; one that reads the prompt for all of them is none yet."""
        reading = [d for d in self.reading if isinstance(d, ActiveBranch) and not d.prompting]
        return [*self.writing, *self.asking, *reading]

    def left(self, demand: Demand) -> int:
        """Tokens between the sequence of a demand and where it is going."""
        return self.end(demand) - self.tree.tip[demand.seq].end

    @staticmethod
    def end(demand: Demand) -> int:
        """Tokens of the path of a demand."""
        assert demand.node is not None
        return demand.node.end

    # ---- on and off

    def write(self, active: ActiveBranch) -> None:
        self.writing.append(active)
        self.loop.set_state(active, BranchState.WRITING)

    def unlist(self, demand: Demand) -> None:
        self.steady = False
        if demand in self.writing:
            self.writing = [r for r in self.writing if r is not demand]
        elif demand in self.reading:
            self.reading.remove(demand)
        else:
            self.asking = [r for r in self.asking if r is not demand]

    def park(self, active: ActiveBranch) -> None:
        """Back to waiting; what it wrote stays, and its cells as long as there is room."""
        self.unlist(active)
        self.loop.detach(active)
        active.since = self.step
        self.loop.set_state(active, BranchState.WAITING)

    def suspend(self, demand: Demand) -> None:
        """Stop what is under way for a demand; what is done of it stays in the cache."""
        if isinstance(demand, ActiveBranch):
            self.park(demand)
            return
        self.unlist(demand)
        self.cache.release(demand)
        self.tree.unwant(demand)
        if isinstance(demand, Scoring):
            demand.request.scoring = None

    def retire(self) -> None:
        """Take what has ended off the lists."""
        if any(r.seq < 0 or r.pending is not None for r in self.writing):  # what has ended has no sequence
            self.steady = False
            self.asking += [r for r in self.writing if r.pending is not None]
            self.writing = [r for r in self.writing if r.seq >= 0 and r.pending is None]
        if self.asking:
            self.asking = [r for r in self.asking if r.pending is not None]
        for demand in [d for d in self.reading if d.seq < 0 or _for_nobody(d)]:
            self.suspend(demand) if demand.seq >= 0 else self.reading.remove(demand)

    def decided(self, active: ActiveBranch) -> None:
        """The grammar was asked: the branch writes, or is taken off the list if it has ended."""
        self.asking.remove(active)
        if not active.request.asked.strict:
            self.writing.append(active)

    def forget(self, request: ActiveRequest) -> None:
        """Give back what a request holds besides its place in the cache."""
        if request.scoring is not None:
            self.suspend(request.scoring)
        request.forget()

    def fail_all(self, error: EngineError) -> None:
        """After a native failure: every request ends, the cache starts empty."""
        self.steady = False
        for request in self.requests:
            request.scoring = None
            for active in request.branches:
                active.seq = -1
            self.loop.fail_request(request, error)
        self.writing.clear()
        self.reading.clear()
        self.asking.clear()
        self.loop.pending.clear()
        self.cache.clear()

    # ---- letting in

    def admit(self) -> None:
        """Let in what fits, those first that have least.

        The first that does not fit keeps its place; only short prompts pass it.
        """
        queue = [r for r in self.requests if not r.asked.strict and any(map(waiting, r.branches))]
        self.held_up = False
        if not queue:
            return
        if any(r.asked.priority is Priority.AHEAD for r in queue) and not self._may_run_ahead:
            queue = [r for r in queue if r.asked.priority is not Priority.AHEAD]
        if len(queue) > 1:
            shares = Shares(self.running)
            queue.sort(key=lambda r: (r.order[0], *shares.of(r), _waits_since(r), r.order[1]))
        under_way: dict[Step, Demand] = {}
        for demand in (*self.writing, *self.reading):
            self._goes_on(demand, under_way)
        for request in queue:
            if self.too_new(request) or (self.held_up and len(request.ids) > SHORT):
                continue
            try:
                if not self._admit_request(request, under_way):
                    self.held_up = True
            except EngineError as error:
                self.loop.fail_request(request, error)
                self.retire()

    def too_new(self, request: ActiveRequest) -> bool:
        """Whether a request may yet be thought better of, and would be in the way of a more important one."""
        age = self.loop.now - request.generation.submitted_at
        return age < self.second_thoughts and any(
            r.request.asked.priority < request.asked.priority for r in self.writing
        )

    def _admit_request(self, request: ActiveRequest, under_way: dict[Step, Demand]) -> bool:
        """False when something is lacking that later requests must not take first.

        ``under_way`` is what is evaluated next. Who waits for any of that waits.
        """
        waits = [r for r in request.branches if waiting(r)]
        for active in waits:
            if active.at_prompt and active.node is None and active.length <= self.window:
                self._want(active)  # all of them before the first goes on from there
        for active in waits:
            if not active.branch.live or self._ended_before_it_began(active):
                continue
            other = self._who_evaluates(active, under_way)
            if other is not None:
                other.urgency = min(other.urgency, request.asked.priority)
                self.loop.set_state(active, BranchState.PROMPT)
                continue
            full = len(self.running) >= self.max_branches and not self.preempt(request)
            if not full and self._begin(active, under_way):
                continue
            if full or self.busy or request.asked.priority is Priority.AHEAD:
                return False
            self.loop.finish(active, FinishReason.CONTEXT, None)
        return True

    def _ended_before_it_began(self, active: ActiveBranch) -> bool:
        """Whether there is nothing to write: the window is full, or no token was asked for."""
        if active.length > self.window and not active.shift(self.window):
            self.loop.finish(active, FinishReason.CONTEXT, None)
            return True
        request, written = active.request, len(active.buffer.ids)
        if request.to_foretell and active.at_prompt:
            logits = self.tree.logits_after(request.ids, request.namespace)
            if logits is not None:
                request.foretell(logits)
        if active.limit > written or request.to_score or (request.to_foretell and active.at_prompt):
            return False
        if not written and self.cache.held(request.ids, None, request.namespace) < len(request.ids):
            return False
        self._account(request, len(request.ids))
        self.loop.finish(active, FinishReason.LENGTH, None)
        return True

    def _who_evaluates(self, active: ActiveBranch, under_way: dict[Step, Demand]) -> Demand | None:
        """Who is about to evaluate the first token that is missing on the way of a branch."""
        request = active.request
        if request.scoring is not None:
            return request.scoring
        goal = active.node or self._want(active)
        if goal.logits is not None or request.to_score:
            return None
        begin = self.cache.standing(goal)
        other = under_way.get((goal, -1) if begin is goal else (begin, goal.below(begin).key))
        return other if other is not None and other.seq >= 0 else None

    def _want(self, active: ActiveBranch) -> Node:
        """Put a branch that waits on the tree, beside another of its request if that stands there already."""
        if active.at_prompt:
            for other in active.request.branches:
                if other.node is not None and other.seq < 0 and other.at_prompt:
                    return self.tree.want_at(active, other.node)
        return self.tree.want(active, active.path)

    def _goes_on(self, demand: Demand, under_way: dict[Step, Demand]) -> None:
        """``demand`` is on a sequence: what it does next is under way."""
        goal, tip = demand.node, self.tree.tip[demand.seq]
        assert goal is not None
        first = goal.below(tip)
        under_way[tip, first.key] = demand
        if first is goal:
            under_way[goal, -1] = demand

    def _begin(self, active: ActiveBranch, under_way: dict[Step, Demand]) -> bool:
        """Put a branch on a sequence: to write, to go where its text ends, or to read the prompt for all.

        False where there is no room.
        """
        request = active.request
        if request.to_score:
            demand: Demand = Scoring(request)
            self.tree.want(demand, request.ids)
            known, logits = request.scored, None
        else:
            assert active.node is not None
            demand, logits = active, active.node.logits
            known = active.node.end - (logits is None)
        if not self._room_for(self.cache.lacks(demand, known), request, demand):
            if demand is not active:
                self.tree.unwant(demand)
            return False
        own = demand is active and (logits is not None or not active.at_prompt)
        if own and not self.loop.prepare(active):
            return True
        if not self.cache.lease(demand, known):
            if demand is not active:
                self.tree.unwant(demand)
            return False
        goal, end = demand.node, self.tree.tip[demand.seq].end
        assert goal is not None
        demand.urgency = request.asked.priority
        if own:  # who reads for all keeps its place among those that wait, and goes on first
            active.since, active.begun_with = self.step, len(active.buffer.ids)
        self._account(request, min(end, len(request.ids)))
        if own and logits is not None and end == goal.end:
            self.write(active)
            self.loop.sample_from(active, logits, None)
            self.retire()
        elif own and not active.at_prompt and goal.end - end == 1:
            self.write(active)
        else:
            self._read(demand, request, for_all=not own)
        if demand.seq >= 0 and demand not in self.asking:
            self._goes_on(demand, under_way)
        return True

    def _read(self, demand: Demand, request: ActiveRequest, for_all: bool) -> None:
        """``demand`` goes where it wants to be; ``for_all``: who waits for the same goes on from there.

        A branch that only has to be there again, as it is known what follows, goes on itself. If it waited
        for its turn, what it has read might leave the cells meanwhile, and be read again, for ever.
        """
        self.reading.append(demand)
        if isinstance(demand, Scoring):
            request.scoring = demand
        elif isinstance(demand, ActiveBranch):
            demand.prompting = for_all
            self.loop.set_state(demand, BranchState.PROMPT)
            if not demand.prompting:
                return
        for active in request.branches:
            if waiting(active):
                self.loop.set_state(active, BranchState.PROMPT)

    def _account(self, request: ActiveRequest, cached: int) -> None:
        if request.account(cached):
            self.prompt_tokens += len(request.ids)
            self.reused_tokens += cached

    def _room_for(self, cells: int, request: ActiveRequest, demand: Demand) -> bool:
        """Whether ``cells`` more and some to write in can be had, taking from lesser requests."""
        if request.asked.priority is Priority.AHEAD:
            return self._free_room_for(cells, demand)
        while True:
            promised = cells + sum(map(self.left, self.reading))
            wanted = promised + RESERVE * (1 + len(self.running)) if self.busy else cells + 1
            if self.cells - self.cache.used_cells >= wanted or self.cells - self.cache.live_cells >= wanted:
                return True
            if not self.preempt(request):
                return False

    def _free_room_for(self, cells: int, demand: Demand) -> bool:
        """Whether ``cells`` more and some to write in are free, or held by what was written ahead only."""
        assert demand.node is not None
        begin = self.cache.standing(demand.node)
        wanted = cells + sum(map(self.left, self.reading)) + RESERVE * (1 + len(self.running))
        return self.cache.make_room(wanted, frozenset(begin.seqs), unused=True)

    # ---- giving way

    def promote(self, request: ActiveRequest, priority: Priority) -> None:
        """``request`` is served sooner from now on, and what it has written is somebody's."""
        if priority is Priority.FOREGROUND:
            self.broken_in = 1
        asked = replace(request.asked, priority=priority)
        ahead = request.asked.priority is Priority.AHEAD
        request.asked = request.generation.request = asked
        request.order = (int(priority), request.generation.number)
        if request.scoring is not None:
            request.scoring.urgency = priority
        for active in request.branches:
            active.urgency = priority
            if ahead:
                self.cache.use(active, active.path)
            if priority is Priority.FOREGROUND and active.branch.state is BranchState.DONE:
                self.loop.expect_more(active)

    def relieve(self) -> bool:
        """Cells ran out: park the least branch, or end it where it is the last one."""
        live = [d for d in (*self.writing, *self.reading, *self.asking) if d.seq >= 0]
        if len(live) > 1:
            self.suspend(max(live, key=_rank))
            return True
        if live and live[0].urgency is Priority.AHEAD:
            self.crowded = True
            self.suspend(live[0])
            return True
        if not live:
            return False
        ended = [live[0]] if isinstance(live[0], ActiveBranch) else []
        if isinstance(live[0], Scoring):
            self.suspend(live[0])
            ended = [r for r in live[0].request.branches if r.branch.live]
        for active in ended:
            self.loop.finish(active, FinishReason.CONTEXT, None)
        self.retire()
        return bool(ended)

    def preempt(self, request: ActiveRequest) -> bool:
        """Take a sequence from what is less urgent than ``request``, or from who has more than a share."""
        priority = request.asked.priority
        lesser = [d for d in (*self.writing, *self.reading, *self.asking) if d.urgency > priority]
        if lesser:
            self.suspend(max(lesser, key=_rank))
            return True
        victim = self._beyond_its_share(request)
        if victim is not None:
            self.park(victim)
        return victim is not None

    def _beyond_its_share(self, request: ActiveRequest) -> ActiveBranch | None:
        """A branch that ``request`` may take the place of."""
        everyone = self.running
        running = [r for r in everyone if r.urgency == request.asked.priority and r.request is not request]
        if not running:
            return None
        shares = Shares(everyone)
        clients, requests = shares.of_clients, shares.of_requests
        most = max(running, key=lambda r: (clients[r.request.client], requests[r.request], r.branch.index))
        if clients[most.request.client] > clients[request.client] + 1:
            return most
        own = [r for r in running if r.request.client == request.client]
        most = max(own, key=lambda r: (requests[r.request], r.branch.index), default=None)
        if most is not None and requests[most.request] > requests[request] + 1:
            return most
        if requests[request]:
            return None
        longest = own if clients[request.client] else running
        # not who is still on the way back to where it was: it would begin again, and again, for nothing
        longest = [r for r in longest if len(r.buffer.ids) - r.begun_with >= self._turn(r)]
        return min(longest, key=lambda r: (r.since, -r.branch.index), default=None)

    def _turn(self, active: ActiveBranch) -> int:
        """Tokens that a branch writes before another takes its place: no less than coming back costs."""
        if self.cache.keeps(active.namespace):
            return QUANTUM
        return max(QUANTUM, active.length // READ_PER_WRITTEN)


def _rank(demand: Demand) -> tuple[int, int, int]:
    """Lower is more important: priority, then age, then the branch's place."""
    if isinstance(demand, ActiveBranch):
        place = -1 if demand.prompting else demand.branch.index
        return int(demand.urgency), demand.request.generation.number, place
    number = demand.request.generation.number if isinstance(demand, Scoring) else 0
    return int(demand.urgency), number, -1


def _for_nobody(demand: Demand) -> bool:
    return isinstance(demand, Scoring) and not demand.request.live


def _waits_since(request: ActiveRequest) -> int:
    """The step at which the first of its branches that wait began to.

    Whoever closes the engine, on another thread, may have ended them just now.
    """
    return min((active.since for active in request.branches if waiting(active)), default=0)
