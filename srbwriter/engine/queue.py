"""Who is running: requests, branches that write, tracks that are fed; and who gives way to whom.

Moves branches between running and waiting. What runs is shared between clients first, then between a client's
requests, then between their branches: nobody waits for long because another asked for much. Knows nothing of
batches and sampling beyond its names.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from .active import ActiveBranch, ActiveRequest, Track, waiting
from .cache import Cache
from .sampling_loop import SamplingLoop
from .types import BranchState, EngineError, FinishReason

QUANTUM = 8
"""Tokens that a branch may write before somebody who has nothing running takes its place."""


class Shares:
    """How many branches each client, and each request, has running."""

    def __init__(self, running: list[ActiveBranch]) -> None:
        self.of_clients: Counter[Hashable] = Counter(r.request.client for r in running)
        self.of_requests: Counter[Hashable] = Counter(r.request for r in running)

    def of(self, request: ActiveRequest) -> tuple[int, int]:
        """Lower is served first."""
        return self.of_clients[request.client], self.of_requests[request]


class Queue:
    """Lists of what runs, and the moves that keep them true."""

    def __init__(self, loop: SamplingLoop, cache: Cache) -> None:
        self.loop, self.cache = loop, cache
        self.requests: list[ActiveRequest] = []
        self.writing: list[ActiveBranch] = []  # one token to evaluate each
        self.feeding: deque[Track] = deque()  # more than one
        self.step = 0  # of the engine
        self.pending: list[ActiveBranch] = []  # none before a slow grammar has been asked

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.feeding or self.pending)

    @property
    def left_waiting(self) -> bool:
        """Whether the last one that ran made room for one that waits, which nobody has let in yet."""
        return not self.busy and any(
            waiting(active) for request in self.requests for active in request.branches
        )

    @property
    def branch_count(self) -> int:
        """Branches on a sequence."""
        return len(self.running)

    @property
    def outstanding(self) -> int:
        """Tokens of prompts under way that still want cells."""
        return sum(len(track.todo) for track in self.feeding)

    @property
    def running(self) -> list[ActiveBranch]:
        """Branches on a sequence."""
        return [*self.writing, *self.pending, *(t for t in self.feeding if isinstance(t, ActiveBranch))]

    # ---- on and off

    def write(self, active: ActiveBranch) -> None:
        self.writing.append(active)
        self.loop.set_state(active, BranchState.WRITING)

    def feed(self, active: ActiveBranch, todo: tuple[int, ...]) -> None:
        """Evaluate ``todo`` for a branch, and let it write on from there."""
        active.todo = todo
        if len(todo) == 1:
            self.write(active)
        else:
            self.feeding.append(active)
            self.loop.set_state(active, BranchState.PROMPT)

    def unlist(self, track: Track) -> None:
        if isinstance(track, ActiveBranch) and track in self.writing:
            self.writing.remove(track)
        elif track in self.feeding:
            self.feeding.remove(track)
        else:
            self.pending = [active for active in self.pending if active is not track]

    def park(self, active: ActiveBranch) -> None:
        """Back to waiting; what it wrote stays, and its cells as long as there is room."""
        self.unlist(active)
        self.loop.detach(active)
        active.since = self.step
        self.loop.set_state(active, BranchState.WAITING)

    def drop_trunk(self, request: ActiveRequest) -> None:
        """Stop evaluating a prompt; the part that is done stays in the cache."""
        trunk, request.trunk = request.trunk, None
        if trunk is not None:
            self.unlist(trunk)
            self.cache.park(trunk.seq)

    def retire(self) -> None:
        """Take what has ended off the lists."""
        if any(r.seq < 0 or r.pending is not None for r in self.writing):  # what has ended has no sequence
            self.pending += [r for r in self.writing if r.pending is not None]
            self.writing = [r for r in self.writing if r.branch.live and r.pending is None]
        self.pending = [r for r in self.pending if r.pending is not None]
        for track in [t for t in self.feeding if isinstance(t, ActiveBranch) and not t.branch.live]:
            self.feeding.remove(track)
        for request in self.requests:
            if request.trunk is not None and not request.live:
                self.drop_trunk(request)

    def decided(self, active: ActiveBranch) -> None:
        """The grammar was asked: the branch writes, or is taken off the list if it has ended."""
        self.pending.remove(active)
        if not active.request.asked.strict:
            self.writing.append(active)

    def forget(self, request: ActiveRequest) -> None:
        """Give back what a request holds besides its place in the cache."""
        self.drop_trunk(request)
        request.forget()

    def fail_all(self, error: EngineError) -> None:
        """After a native failure: every request ends, the cache starts empty."""
        for request in self.requests:
            request.trunk = None
            for active in request.branches:
                active.seq = -1
            self.loop.fail_request(request, error)
        self.writing.clear()
        self.feeding.clear()
        self.pending.clear()
        self.cache.clear()

    # ---- giving way

    def relieve(self) -> bool:
        """Cells ran out: park the least branch, or end it where it is the last one."""
        live = [t for t in (*self.writing, *self.feeding, *self.pending) if t.seq >= 0]
        if len(live) > 1:
            self._suspend(max(live, key=_rank))
            return True
        if live and isinstance(live[0], ActiveBranch):
            self.loop.finish(live[0], FinishReason.CONTEXT, None)
            self.retire()
            return True
        return False

    def preempt(self, request: ActiveRequest) -> bool:
        """Take a sequence from what is less urgent than ``request``, or from who has more than a share."""
        priority = request.asked.priority
        lesser = [t for t in (*self.writing, *self.feeding, *self.pending) if t.urgency > priority]
        if lesser:
            self._suspend(max(lesser, key=_rank))
            return True
        victim = self._beyond_its_share(request)
        if victim is not None:
            self.park(victim)
        return victim is not None

    def _beyond_its_share(self, request: ActiveRequest) -> ActiveBranch | None:
        """A branch that ``request`` may take the place of."""
        running = [
            r for r in self.running if r.urgency == request.asked.priority and r.request is not request
        ]
        if not running:
            return None
        shares = Shares(self.running)
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
        longest = [
            r for r in (running if not clients[request.client] else own) if self.step - r.since >= QUANTUM
        ]
        return min(longest, key=lambda r: (r.since, -r.branch.index), default=None)

    def _suspend(self, track: Track) -> None:
        if isinstance(track, ActiveBranch):
            self.park(track)
        else:
            self.drop_trunk(track.request)


def _rank(track: Track) -> tuple[int, int, int]:
    """Lower is more important: priority, then age, then the branch's place."""
    order = int(track.urgency), track.request.generation.number
    return (*order, track.branch.index if isinstance(track, ActiveBranch) else -1)
