"""The queue: which branches run, which wait, and which give way.

A branch with something to write waits until it is admitted: by priority, then by how few branches of its
client and its request run, then by how long it has waited. Running branches are shared out between clients
first, then between a client's requests, then between their branches: a large request delays no other for
long. The queue knows nothing of batches.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable
from dataclasses import replace
from itertools import chain
from typing import TypeAlias

from .active import ActiveBranch, ActiveRequest, ScoringDemand, is_waiting
from .cache import Cache
from .sampling_loop import SamplingLoop
from .tree import Demand, Key, Node
from .types import BranchState, EngineError, FinishReason, Priority

TURN_TOKENS = 8
"""Tokens that a branch may write before a request with no running branch takes its place."""
READ_PER_WRITTEN = 8
"""Tokens of a prompt that are evaluated in about the time in which one is written."""
RESERVED_CELLS = 16
"""Cells that a branch should find free before it is admitted."""
EXPECTED_TOKENS = 256
"""Tokens that a branch is expected to write at most, where cells are reserved for all of its text."""
FIRST_TEXTS_SECONDS = 0.004
"""Seconds of admission after which the first tokens drawn so far are published: 32 branches take 25 ms."""
SHORT_PROMPT = 64
"""Tokens of a prompt that keeps no other request waiting."""
PREFETCH_DELAY = 0.1
"""Seconds without other work before prefetching begins: a client that sends one request after the other finds
the engine free each time."""
MOST_PREFETCH_BACKOFF = 64
"""The factor of that delay, at most: each request that interrupts prefetching doubles it."""
SETTLE_SECONDS = 0.15
"""Seconds that a request waits while a more important one writes. Programs that complete while somebody types
send and cancel ten requests in that time, and each would cost the writer a step."""


Step: TypeAlias = "tuple[Node, Key]"
"""A node and the token that is evaluated after it; -1 for its own last one, once more."""


class Shares:
    """Running branches of each client and of each request."""

    def __init__(self, running: list[ActiveBranch]) -> None:
        self.of_clients: Counter[Hashable] = Counter(r.request.client for r in running)
        self.of_requests: Counter[Hashable] = Counter(r.request for r in running)

    def rank(self, request: ActiveRequest) -> tuple[int, int]:
        """Return the rank of a request: the lowest is served first."""
        return self.of_clients[request.client], self.of_requests[request]


class Queue:
    """The lists of running demands, and the moves between them.

    Args:
        window: how many positions one branch may use.
    """

    def __init__(
        self, loop: SamplingLoop, cache: Cache, *, window: int, cells: int, max_branches: int
    ) -> None:
        self.loop, self.cache, self.tree = loop, cache, cache.tree
        self.window, self.cells, self.max_branches = window, cells, max_branches
        self.requests: list[ActiveRequest] = []
        self.writing: list[ActiveBranch] = []  # one token to evaluate for each
        self.reading: deque[Demand] = deque()  # more than one token to evaluate
        self.steady = False  # whether the next step is like the last: all continue, and nobody waits
        self.step = 0  # of the engine
        self.settle_seconds = SETTLE_SECONDS
        self.prefetch_delay = PREFETCH_DELAY
        self.prefetch_backoff = 1  # factor of the delay; 1 again after a request of the writer
        self.last_worked = float("-inf")  # when anything but prefetching was last done
        self.works_elsewhere: Callable[[], bool] = lambda: False  # whether the model works outside the batch
        self.prefetch_paused_until = float("-inf")  # somebody else needs the cores until then
        self.lacks_room = False  # a waiting branch did not fit when that was last tried
        self.prefetch_lacks_room = False  # prefetching did not fit; it rests until there is news
        self.prompt_tokens = 0
        self.reused_tokens = 0
        self.publish: Callable[[], None] = lambda: None  # what branches have written so far
        self.takes_turns = True
        """Whether branches that do not fit the cells take turns, because those that yield are copied back."""

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.reading)

    @property
    def all_writing(self) -> bool:
        """Whether all branches write and have a row in every step, and no request has just ended."""
        if self.reading or not self.writing or not all(r.live for r in self.requests):
            return False
        return not self.runs_prefetch and not any(
            r.asked.priority is Priority.BACKGROUND or any(map(is_waiting, r.branches))
            for r in self.requests
            if r.asked.priority is not Priority.AHEAD
        )

    @property
    def left_waiting(self) -> bool:
        """Whether nothing runs and a branch waits that has not been admitted yet."""
        return not self.busy and self._wanted_waits

    def has_wanted_requests(self) -> bool:
        """Whether any request is more than a prefetch."""
        return bool(self._wanted_requests)

    @property
    def _wanted_requests(self) -> list[ActiveRequest]:
        return [r for r in self.requests if r.asked.priority is not Priority.AHEAD]

    @property
    def _wanted_waits(self) -> bool:
        """Whether a branch of more than a prefetch waits."""
        return any(is_waiting(r) for request in self._wanted_requests for r in request.branches)

    @property
    def _running_demands(self) -> list[Demand]:
        return [*self.writing, *self.reading]

    @property
    def runs_prefetch(self) -> bool:
        """Whether what runs is a prefetch; nothing else runs then."""
        first = next(chain(self.writing, self.reading), None)
        return first is not None and first.urgency is Priority.AHEAD

    @property
    def has_wanted_work(self) -> bool:
        """Whether there is any work beyond prefetches."""
        if self.works_elsewhere() or any(d.urgency is not Priority.AHEAD for d in self._running_demands):
            return True
        return self._wanted_waits

    def seconds_to_prefetch(self, now: float) -> float | None:
        """Return the seconds until prefetching may begin; None where that is no question of time.

        0 means that it may begin: the time came after the last step had begun.
        """
        if self.prefetch_lacks_room or self.lacks_room or self.busy:
            return None
        prefetches = [request for request in self.requests if request.asked.priority is Priority.AHEAD]
        if not any(is_waiting(r) for request in prefetches for r in request.branches):
            return None
        if self.works_elsewhere():
            self.last_worked = now
        begin = self.last_worked + self.prefetch_delay * self.prefetch_backoff
        left = max(begin, self.prefetch_paused_until) - now
        if left <= 0 and self._wanted_waits:
            return None  # these branches begin first
        return max(left, 0.0)

    def yield_slots(self) -> None:
        """Suspend prefetches while there is other work."""
        prefetches = [d for d in self._running_demands if d.urgency is Priority.AHEAD]
        if not prefetches:
            return
        wanted = self.has_wanted_work
        if wanted and all(r.asked.priority is not Priority.FOREGROUND for r in self._wanted_requests):
            self.prefetch_backoff = min(2 * self.prefetch_backoff, MOST_PREFETCH_BACKOFF)
        if wanted or self.loop.now < self.prefetch_paused_until:
            for demand in prefetches:
                self.suspend(demand)

    @property
    def running(self) -> list[ActiveBranch]:
        """Branches on a sequence of their own; one that reads the prompt for its siblings is none."""
        # A copy of the list: statistics are read by other threads.
        reading = [d for d in list(self.reading) if isinstance(d, ActiveBranch) and not d.prompting]
        return [*self.writing, *reading]

    def tokens_left(self, demand: Demand) -> int:
        """Return how many tokens of the path of a demand its sequence has not evaluated."""
        return self.path_length(demand) - self.tree.tip[demand.seq].end

    @staticmethod
    def path_length(demand: Demand) -> int:
        """Return how many tokens the path of a demand has."""
        assert demand.node is not None
        return demand.node.end

    # ---- starting and stopping

    def start_writing(self, active: ActiveBranch) -> None:
        """List a branch as writing: one token of it is evaluated in each step."""
        self.writing.append(active)
        active.set_state(BranchState.WRITING)

    def unlist(self, demand: Demand) -> None:
        """Take a demand off the list that it is on."""
        self.steady = False
        if demand in self.writing:
            self.writing = [r for r in self.writing if r is not demand]
        elif demand in self.reading:
            self.reading.remove(demand)

    def requeue(self, active: ActiveBranch) -> None:
        """Let a running branch wait again; its text stays, and its cells as long as there is room."""
        self.unlist(active)
        self.loop.detach(active)
        active.since = self.step
        active.set_state(BranchState.WAITING)

    def suspend(self, demand: Demand) -> None:
        """Stop a running demand; what has been evaluated stays in the cache."""
        if isinstance(demand, ActiveBranch):
            self.requeue(demand)
            return
        self.unlist(demand)
        self.cache.release(demand)
        self.tree.remove_demand(demand)
        if isinstance(demand, ScoringDemand):
            demand.request.scoring = None

    def drop_ended(self) -> None:
        """Take ended branches off the lists."""
        if any(r.seq < 0 for r in self.writing):  # what has ended has no sequence
            self.steady = False
            self.writing = [r for r in self.writing if r.seq >= 0]
        for demand in list(self.reading):
            if demand.seq < 0:
                self.reading.remove(demand)
            elif isinstance(demand, ScoringDemand) and not demand.request.live:
                self.suspend(demand)

    def release_request(self, request: ActiveRequest) -> None:
        """Give back what an ended request holds besides its text in the cache."""
        if request.scoring is not None:
            self.suspend(request.scoring)
        request.close_templates()

    def fail_all(self, error: EngineError) -> None:
        """End every request after a native failure; the cache starts empty."""
        self.steady = False
        for request in self.requests:
            request.scoring = None
            for active in request.branches:
                active.seq = -1
            self.loop.fail_request(request, error)
        self.writing.clear()
        self.reading.clear()
        self.loop.pending.clear()
        self.cache.clear()

    # ---- admission

    def admit(self) -> None:
        """Start the waiting branches that fit, those with the least share first.

        The first request that does not fit keeps its place; only short prompts overtake it.
        """
        queue = [r for r in self.requests if any(map(is_waiting, r.branches))]
        self.lacks_room = False
        if not queue:
            return
        self.takes_turns = self.cache.keeps_evicted(sum(map(_expected_tokens, self.requests)))
        if any(r.asked.priority is Priority.AHEAD for r in queue) and (
            self.has_wanted_work or self.prefetch_lacks_room or self.seconds_to_prefetch(self.loop.now)
        ):
            queue = [r for r in queue if r.asked.priority is not Priority.AHEAD]
        if len(queue) > 1:
            shares = Shares(self.running)
            turns = self.takes_turns  # else a request that has started is finished first
            queue.sort(
                key=lambda r: (
                    r.order[0], not turns and not r.counted, *shares.rank(r), _waiting_since(r), r.order[1]
                )
            )  # fmt: skip
        under_way: dict[Step, Demand] = {}
        for demand in (*self.writing, *self.reading):
            self._note_next_step(demand, under_way)
        for request in queue:
            may_pass = self.takes_turns and len(request.ids) <= SHORT_PROMPT
            if self.is_too_new(request) or (self.lacks_room and not may_pass):
                continue
            try:
                if not self._admit_request(request, under_way):
                    self.lacks_room = True
            except EngineError as error:
                self.loop.fail_request(request, error)
                self.drop_ended()

    def is_too_new(self, request: ActiveRequest) -> bool:
        """Whether a request may be cancelled in a moment, and delays a more important one meanwhile."""
        age = self.loop.now - request.generation.submitted_at
        return age < self.settle_seconds and any(
            r.request.asked.priority < request.asked.priority for r in self.writing
        )

    def _admit_request(self, request: ActiveRequest, under_way: dict[Step, Demand]) -> bool:
        """Start the waiting branches of a request; False if it lacks room that later requests must not take.

        ``under_way`` holds the demands of the next steps. A branch that needs one of their tokens waits for
        it.
        """
        publish_at = time.perf_counter() + FIRST_TEXTS_SECONDS
        waits = [r for r in request.branches if is_waiting(r)]
        for active in waits:
            if active.at_prompt and active.node is None and active.length <= self.window:
                self._add_demand(active)  # all of them, before the first continues from there
        for active in waits:
            if not active.branch.live or self._end_if_complete(active):
                continue
            other = self._find_evaluating(active, under_way)
            if other is not None:
                other.urgency = min(other.urgency, request.asked.priority)
                active.set_state(BranchState.PROMPT)
                continue
            full = len(self.running) >= self.max_branches and not self.preempt(request)
            if not full and self._start(active, under_way):
                if time.perf_counter() >= publish_at:
                    self.publish()
                    publish_at = time.perf_counter() + FIRST_TEXTS_SECONDS
                continue
            if full or self.busy or request.asked.priority is Priority.AHEAD:
                return False
            self.loop.finish(active, FinishReason.CONTEXT, None)
        return True

    def _end_if_complete(self, active: ActiveBranch) -> bool:
        """End a branch that has nothing to write; return False if it has.

        That is so where the window is full, or the limit is 0 tokens.
        """
        if active.length > self.window and not active.shift(self.window):
            self.loop.finish(active, FinishReason.CONTEXT, None)
            return True
        request, written = active.request, len(active.buffer.ids)
        if request.wants_next_logprobs and active.at_prompt:
            logits = self.tree.logits_after(request.ids, request.namespace)
            if logits is not None:
                request.report_next_logprobs(logits)
        if (
            active.limit > written
            or request.needs_scoring
            or (request.wants_next_logprobs and active.at_prompt)
        ):
            return False
        if not written and self.cache.count_held(request.ids, request.namespace) < len(request.ids):
            return False
        self._count_prompt(request, len(request.ids))
        self.loop.finish(active, FinishReason.LENGTH, None)
        return True

    def _find_evaluating(self, active: ActiveBranch, under_way: dict[Step, Demand]) -> Demand | None:
        """Return the demand that is about to evaluate the first missing token of a branch, or None."""
        request = active.request
        if request.scoring is not None:
            return request.scoring
        goal = active.node or self._add_demand(active)
        if goal.logits is not None or request.needs_scoring:
            return None
        begin = self.tree.longest_prefix(goal)
        other = under_way.get((goal, -1) if begin is goal else (begin, goal.ancestor_below(begin).key))
        return other if other is not None and other.seq >= 0 else None

    def _add_demand(self, active: ActiveBranch) -> Node:
        """Put a waiting branch on the tree, at the node of a sibling if one waits there."""
        if active.at_prompt:
            for other in active.request.branches:
                if other.node is not None and other.seq < 0 and other.at_prompt:
                    return self.tree.add_demand_at(active, other.node)
        return self.tree.add_demand(active, active.path)

    def _note_next_step(self, demand: Demand, under_way: dict[Step, Demand]) -> None:
        """Add the next token of a running demand to ``under_way``."""
        goal, tip = demand.node, self.tree.tip[demand.seq]
        assert goal is not None
        first = goal.ancestor_below(tip)
        under_way[tip, first.key] = demand
        if first is goal:
            under_way[goal, -1] = demand

    def _start(self, active: ActiveBranch, under_way: dict[Step, Demand]) -> bool:
        """Give a branch a sequence: to write, to read its text, or to read the prompt for its siblings.

        False where there is no room.
        """
        request = active.request
        if request.needs_scoring:
            demand: Demand = ScoringDemand(request)
            self.tree.add_demand(demand, request.ids)
            known, logits = request.scored, None
        else:
            assert active.node is not None
            demand, logits = active, active.node.logits
            known = active.node.end - (logits is None)
        missing = self.cache.count_missing_cells(demand, known)
        fits = self._make_room(missing, request, demand, known, active)
        own = demand is active and (logits is not None or not active.at_prompt)
        if fits and own and not self.loop.prepare(active):
            return True
        if not fits or not self.cache.allocate(demand, known):
            if demand is not active:
                self.tree.remove_demand(demand)
            return False
        goal, end = demand.node, self.tree.tip[demand.seq].end
        assert goal is not None
        demand.urgency = request.asked.priority
        if own:  # a branch that reads for its siblings keeps its place among the waiting branches
            active.since, active.tokens_at_start = self.step, len(active.buffer.ids)
        self._count_prompt(request, min(end, len(request.ids)))
        if own and logits is not None and end == goal.end:
            self.start_writing(active)
            self.loop.sample_from(active, logits, None)
            self.drop_ended()
        elif own and not active.at_prompt and goal.end - end == 1:
            self.start_writing(active)
        else:
            self._start_reading(demand, request, for_all=not own)
        if demand.seq >= 0:
            self._note_next_step(demand, under_way)
        return True

    def _start_reading(self, demand: Demand, request: ActiveRequest, for_all: bool) -> None:
        """List a demand as reading; ``for_all``: its siblings continue from where it ends.

        A branch whose text was evaluated before, and only has to be in cells again, continues itself. If it
        waited for its turn, what it has read might be evicted meanwhile and be read again, for ever.
        """
        self.reading.append(demand)
        if isinstance(demand, ScoringDemand):
            request.scoring = demand
        elif isinstance(demand, ActiveBranch):
            demand.prompting = for_all
            demand.set_state(BranchState.PROMPT)
            if not demand.prompting:
                return
        for active in request.branches:
            if is_waiting(active):
                active.set_state(BranchState.PROMPT)

    def _count_prompt(self, request: ActiveRequest, cached: int) -> None:
        if request.report_cached(cached):
            self.prompt_tokens += len(request.ids)
            self.reused_tokens += cached

    def _make_room(
        self, cells: int, request: ActiveRequest, demand: Demand, known: int, active: ActiveBranch
    ) -> bool:
        """Make room for ``cells`` more and some to write in, by suspending lesser requests; False if not."""
        if request.asked.priority is Priority.AHEAD:
            return self._make_prefetch_room(cells, demand)
        if self.busy and not self.takes_turns:
            cells += self.cache.count_idle_prefix(demand, known)
            return self._make_room_to_end(cells, request, active)
        while True:
            promised = cells + sum(map(self.tokens_left, self.reading))
            wanted = promised + RESERVED_CELLS * (1 + len(self.running)) if self.busy else cells + 1
            if self.cells - self.cache.used_cells >= wanted or self.cells - self.cache.live_cells >= wanted:
                return True
            if not self.preempt(request):
                return False

    def _make_room_to_end(self, cells: int, request: ActiveRequest, active: ActiveBranch) -> bool:
        """Make room for ``cells`` more and the rest of running branches and ``active``; False if impossible.

        Where host memory cannot hold evicted states, branches that take turns would be evaluated again and
        again; so they wait until the running branches have ended.
        """
        while True:
            promised = sum(map(self.tokens_left, self.reading)) + sum(map(_tokens_to_write, self.running))
            wanted = cells + promised + _tokens_to_write(active)
            if self.cells - self.cache.used_cells >= wanted or self.cells - self.cache.live_cells >= wanted:
                return True
            if not self._suspend_lesser(request):
                return False

    def _make_prefetch_room(self, cells: int, demand: Demand) -> bool:
        """Make room for ``cells`` more and some to write in; only prefetched text is dropped for it."""
        assert demand.node is not None
        begin = self.tree.longest_prefix(demand.node)
        wanted = cells + sum(map(self.tokens_left, self.reading)) + RESERVED_CELLS * (1 + len(self.running))
        return self.cache.free_cells(wanted, frozenset(begin.seqs), unused=True)

    # ---- preemption

    def promote(self, request: ActiveRequest, priority: Priority) -> None:
        """Serve ``request`` sooner from now on, and count what it has prefetched as used."""
        if priority is Priority.FOREGROUND:
            self.prefetch_backoff = 1
        asked = replace(request.asked, priority=priority)
        ahead = request.asked.priority is Priority.AHEAD
        request.asked = request.generation.request = asked
        request.order = (int(priority), request.generation.number)
        if request.scoring is not None:
            request.scoring.urgency = priority
        for active in request.branches:
            active.urgency = priority
            if ahead:
                self.cache.mark_wanted(active, active.path)
            if priority is Priority.FOREGROUND and active.branch.state is BranchState.DONE:
                self.loop.expect_more(active)

    def suspend_least(self) -> bool:
        """Suspend the least important demand, as cells ran out; end its branches where it is the last one."""
        live = [d for d in self._running_demands if d.seq >= 0]
        if len(live) > 1:
            self.suspend(max(live, key=_importance))
            return True
        if live and live[0].urgency is Priority.AHEAD:
            self.prefetch_lacks_room = True
            self.suspend(live[0])
            return True
        if not live:
            return False
        ended = [live[0]] if isinstance(live[0], ActiveBranch) else []
        if isinstance(live[0], ScoringDemand):
            self.suspend(live[0])
            ended = [r for r in live[0].request.branches if r.branch.live]
        for active in ended:
            self.loop.finish(active, FinishReason.CONTEXT, None)
        self.drop_ended()
        return bool(ended)

    def preempt(self, request: ActiveRequest) -> bool:
        """Suspend one that is less urgent than ``request`` or has more than its share; False if none is."""
        if self._suspend_lesser(request):
            return True
        victim = self._beyond_its_share(request)
        if victim is not None:
            self.requeue(victim)
        return victim is not None

    def _suspend_lesser(self, request: ActiveRequest) -> bool:
        """Suspend the least important demand that is less urgent than ``request``; False if none is."""
        priority = request.asked.priority
        lesser = [d for d in self._running_demands if d.urgency > priority]
        if lesser:
            self.suspend(max(lesser, key=_importance))
        return bool(lesser)

    def _beyond_its_share(self, request: ActiveRequest) -> ActiveBranch | None:
        """Return a branch whose place ``request`` may take, or None."""
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
        # no branch that is still evaluating its own text again: it would do so again and again, for nothing
        done: list[ActiveBranch] = []
        for active in longest:
            turn = TURN_TOKENS
            if self.cache.on_device or not self.cache.is_archived(active.namespace):
                # no shorter than evaluating its text again
                turn = max(turn, active.length // READ_PER_WRITTEN)
            if len(active.buffer.ids) - active.tokens_at_start >= turn:
                done.append(active)
        return min(done, key=lambda r: (r.since, -r.branch.index), default=None)


def _tokens_to_write(active: ActiveBranch) -> int:
    """Return how many tokens a branch is expected to write yet."""
    return min(max(active.limit - len(active.buffer.ids), 0), EXPECTED_TOKENS)


def _expected_tokens(request: ActiveRequest) -> int:
    """Return how many tokens a request will have when its branches have ended."""
    live = [active for active in request.branches if active.branch.live]
    return len(request.ids) + sum(len(active.buffer.ids) + _tokens_to_write(active) for active in live)


def _importance(demand: Demand) -> tuple[int, int, int]:
    """Return a sort key: the lowest is the most important, by priority, age and the branch's place."""
    if isinstance(demand, ActiveBranch):
        place = -1 if demand.prompting else demand.branch.index
        return int(demand.urgency), demand.request.generation.number, place
    number = demand.request.generation.number if isinstance(demand, ScoringDemand) else 0
    return int(demand.urgency), number, -1


def _waiting_since(request: ActiveRequest) -> int:
    """Return the step since which the first waiting branch of a request has waited.

    There may be none: the thread that closes the engine may have ended them just now.
    """
    return min((active.since for active in request.branches if is_waiting(active)), default=0)
