"""The queue: which branches run, which wait, and which give way.

A branch with something to write waits until it is admitted: by priority, then by how few branches of its
client and its request run, then by what would be read again once it left the cells, then by how long it has
waited. Running branches are shared out between clients first, then between a client's requests, then between
their branches: a large request delays no other for long. Background requests run only while nothing else
does. The queue knows nothing of batches.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from .active import ActiveBranch, ActiveRequest
from .cache import Cache
from .sampling_loop import SamplingLoop
from .tree import TokenNode
from .types import BranchState, EngineError, FinishReason, Priority

TURN_TOKENS = 8
"""Tokens that a branch may write before a request with no running branch takes its place."""
READ_PER_WRITTEN = 8
"""Tokens of a prompt that are evaluated in about the time in which one is written."""
RESERVED_CELLS = 16
"""Cells that a branch should find free before it is admitted."""
FIRST_TEXTS_SECONDS = 0.004
"""Seconds of admission after which the first tokens drawn so far are published: 32 branches take 25 ms."""
SHORT_PROMPT = 64
"""Tokens of a prompt that keeps no other request waiting."""
REST_SECONDS = 0.25
"""Seconds without other work before background and idle work begins: the next of several requests in a row
comes sooner, and a copy, or a step on a device, is not broken off."""

Step: TypeAlias = "tuple[TokenNode, int]"
"""A node and the token that is evaluated after it."""


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
        self.reading: deque[ActiveBranch] = deque()  # more than one token to evaluate
        self.steady = False  # whether the next step is like the last: all continue, and nobody waits
        self.step = 0  # of the engine
        self.rest_seconds = REST_SECONDS
        self.last_worked = float("-inf")  # when anything but background work was last done
        self.lacks_room = False  # background work did not fit; it rests until there is news
        self.admitted = 0  # demands, in all
        self.prompt_tokens = 0
        self.reused_tokens = 0
        self.publish: Callable[[], None] = lambda: None  # what branches have written so far

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.reading)

    @property
    def _listed(self) -> list[ActiveBranch]:
        return [*self.writing, *self.reading]

    @property
    def runs_background(self) -> bool:
        """Whether what runs is background work; nothing else runs then."""
        return any(d.urgency is Priority.BACKGROUND for d in self._listed[:1])

    @property
    def running(self) -> list[ActiveBranch]:
        """Branches on a sequence of their own; one that reads the prompt for its siblings is none."""
        # A copy of the list: statistics are read by other threads.
        return [*self.writing, *(r for r in list(self.reading) if not r.prompting)]

    @property
    def all_writing(self) -> bool:
        """Whether all branches write and have a row in every step, and no request has just ended."""
        if self.reading or not self.writing or self.runs_background or not all(r.live for r in self.requests):
            return False
        return not self.waits(Priority.NORMAL)

    def waits(self, priority: Priority) -> bool:
        """Whether a branch of a request of this priority waits."""
        return any(b.waiting for r in self.requests if r.asked.priority is priority for b in r.branches)

    def seconds_of_rest(self, now: float) -> float:
        """Return the seconds until background and idle work may begin."""
        return max(self.last_worked + self.rest_seconds - now, 0.0)

    def tokens_left(self, active: ActiveBranch) -> int:
        """Return how many tokens of its path the sequence of a branch has not evaluated."""
        return active.length - self.tree.tip[active.seq].end

    # ---- starting and stopping

    def start_writing(self, active: ActiveBranch) -> None:
        """List a branch as writing: one token of it is evaluated in each step."""
        self.writing.append(active)
        active.set_state(BranchState.WRITING)

    def requeue(self, active: ActiveBranch) -> None:
        """Let a running branch wait again; its text stays, and its cells as long as there is room."""
        self.loop.detach(active)
        self.drop_ended()
        active.since = self.step
        active.set_state(BranchState.WAITING)

    def suspend_background(self) -> None:
        """Suspend background work while there is other work, or another program needs the cores."""
        if self.runs_background and (self.waits(Priority.NORMAL) or self.seconds_of_rest(self.loop.now)):
            for active in self._listed:
                self.requeue(active)

    def drop_ended(self) -> None:
        """Take ended branches off the lists: what has ended has no sequence."""
        if any(r.seq < 0 for r in self._listed):
            self.steady = False
            self.writing = [r for r in self.writing if r.seq >= 0]
            self.reading = deque(r for r in self.reading if r.seq >= 0)

    def fail_all(self, error: EngineError) -> None:
        """End every request after a native failure; the cache starts empty."""
        self.steady = False
        for request in self.requests:
            for active in request.branches:
                active.seq = -1
            self.loop.fail_request(request, error)
        self.writing.clear()
        self.reading.clear()
        self.loop.pending.clear()
        self.cache.clear()

    # ---- admission

    def admit(self) -> bool:
        """Start the waiting branches that fit, those with the least share first; False if none was started.

        The first request that does not fit keeps its place; only short prompts overtake it.
        """
        waiting = [r for r in self.requests if any(b.waiting for b in r.branches)]
        wanted = [r for r in waiting if r.asked.priority is not Priority.BACKGROUND]
        if not wanted and (not self.busy or self.runs_background) and not self.lacks_room:
            wanted = waiting if self.seconds_of_rest(self.loop.now) == 0 else []
        if len(wanted) > 1:
            clients, requests = self._count_running()
            kept = {r for r in wanted if not r.counted or self.cache.returns(r.salt)}  # nothing is read again
            wanted.sort(
                key=lambda r: (
                    clients[r.client], requests[r], r in kept, r.waiting_since, r.generation.number,
                )
            )  # fmt: skip
        under_way: set[Step] = set()
        for active in self._listed:
            self._note_next_step(active, under_way)
        full, before = False, self.admitted
        for request in wanted:
            # Behind background work nothing passes by: it evicts what was read for that, again and again.
            if full and (len(request.ids) > SHORT_PROMPT or request.asked.priority is Priority.BACKGROUND):
                continue
            try:
                full = not self._admit_request(request, under_way) or full
            except EngineError as error:
                self.loop.fail_request(request, error)
                self.drop_ended()
        self.lacks_room = self.lacks_room or (full and not self.busy)
        return self.admitted > before

    def _admit_request(self, request: ActiveRequest, under_way: set[Step]) -> bool:
        """Start the waiting branches of a request; False if it lacks room that later requests must not take.

        ``under_way`` holds the next steps of what runs. A branch that needs one of them waits for it.
        """
        publish_at = time.perf_counter() + FIRST_TEXTS_SECONDS
        for active in [r for r in request.branches if r.waiting]:
            if not active.branch.live or self._end_if_complete(active):
                continue
            path = active.path  # one list, as the tree knows the list that it was last asked for
            logits = self.tree.logits_after(path, active.salt)
            if self._is_evaluated_for(active, path, logits, under_way):
                active.set_state(BranchState.PROMPT)
                continue
            full = len(self.running) >= self.max_branches and not self.preempt(request)
            if not full and self._start(active, path, logits, under_way):
                if time.perf_counter() >= publish_at:
                    self.publish()
                    publish_at = time.perf_counter() + FIRST_TEXTS_SECONDS
                continue
            if full or self.busy or request.asked.priority is Priority.BACKGROUND:
                return False
            self.loop.finish(active, FinishReason.CONTEXT, None)
        return True

    def _end_if_complete(self, active: ActiveBranch) -> bool:
        """End a branch that has nothing to write; return False if it has.

        That is so where the window is full, or the limit is 0 tokens.
        """
        if active.length > self.window:
            self.loop.finish(active, FinishReason.CONTEXT, None)
            return True
        request, written = active.request, len(active.buffer.ids)
        if request.wants_next_logprobs and active.at_prompt:
            logits = self.tree.logits_after(request.ids, request.salt)
            if logits is not None:
                request.report_next_logprobs(logits)
        if (
            active.limit > written
            or request.needs_scoring
            or (request.wants_next_logprobs and active.at_prompt)
        ):
            return False
        if not written and self.cache.count_held(request.ids, request.salt) < len(request.ids):
            return False
        self._count_prompt(request, len(request.ids))
        self.loop.finish(active, FinishReason.LENGTH, None)
        return True

    def _is_evaluated_for(
        self, active: ActiveBranch, path: Sequence[int], logits: Any, under_way: set[Step]
    ) -> bool:
        """Whether something that runs is about to evaluate the first missing token of a branch."""
        request = active.request
        read = any(r.prompting and r.seq >= 0 for r in request.branches)
        if request.needs_scoring or logits is not None:
            return read and request.needs_scoring
        if active.at_prompt and read:
            return True
        begin = self.tree.resumable(path, active.salt, len(path) - 1)
        return (begin, path[begin.end]) in under_way

    def _note_next_step(self, active: ActiveBranch, under_way: set[Step]) -> None:
        """Add the next step of a running branch to ``under_way``."""
        tip = self.tree.tip[active.seq]
        left = active.length - tip.end
        if left > 0:
            under_way.add((tip, active.last_token if left == 1 else active.path[tip.end]))

    def _start(self, active: ActiveBranch, path: Sequence[int], logits: Any, under_way: set[Step]) -> bool:
        """Give a branch a sequence: to write, to read its text, or to read the prompt for its siblings.

        ``logits`` are those after its ``path``, if they are stored. False where there is no room. A branch
        whose text was evaluated before, and only has to be in cells again, reads for itself. If it waited
        for its turn, what it has read might be evicted meanwhile and be read again, for ever.
        """
        request = active.request
        known = request.scored if request.needs_scoring else len(path) - (logits is None)
        own = not request.needs_scoring and (logits is not None or not active.at_prompt)
        active.prompting = not own
        path = path if own else request.ids
        fits = self._make_room(*self.cache.count_cells(path, active.salt, known), request)
        if fits and own and not self.loop.prepare(active):
            return True
        active.urgency = request.asked.priority
        if not fits or not self.cache.allocate(active, path, known):
            active.prompting = False
            return False
        self.admitted += 1
        end = self.tree.tip[active.seq].end
        self._count_prompt(request, min(end, len(request.ids)))
        if not own:
            for sibling in request.branches:
                if sibling is active or sibling.waiting:
                    sibling.set_state(BranchState.PROMPT)
            self.reading.append(active)  # it keeps its place among the waiting branches
        else:
            active.since, active.tokens_at_start = self.step, len(active.buffer.ids)
            if logits is not None and end == active.length:
                self.start_writing(active)
                self.loop.sample_from(active, logits, None)
                self.drop_ended()
            elif not active.at_prompt and active.length - end == 1:
                self.start_writing(active)
            else:
                self.reading.append(active)
                active.set_state(BranchState.PROMPT)
        if active.seq >= 0:
            self._note_next_step(active, under_way)
        return True

    def _count_prompt(self, request: ActiveRequest, cached: int) -> None:
        if request.report_cached(cached):
            self.prompt_tokens += len(request.ids)
            self.reused_tokens += cached

    def _make_room(self, cells: int, parked: int, request: ActiveRequest) -> bool:
        """Find room for ``cells`` more and some to write in; others give way for it if need be.

        Idle text does, too, but for the ``parked`` cells that the request goes on from.
        """
        while True:
            wanted, background = cells + 1, request.asked.priority is Priority.BACKGROUND
            if self.busy or background:
                promised = sum(map(self.tokens_left, self.reading))
                wanted = cells + promised + RESERVED_CELLS * (1 + len(self.running))
            if self.cells - self.cache.used_cells >= wanted:
                return True
            if background:
                return self.cache.free_cells(wanted, background=True)
            if self.cells - self.cache.live_cells >= wanted + parked:
                return True
            if not self.preempt(request):
                return False

    # ---- preemption

    def promote(self, request: ActiveRequest, priority: Priority) -> None:
        """Serve ``request`` by another priority from now on, and count what it has written as used."""
        asked = replace(request.asked, priority=priority)
        was_background = request.asked.priority is Priority.BACKGROUND
        request.asked = request.generation.request = asked
        for active in request.branches:
            active.urgency = priority
            if was_background:
                self.tree.mark_used(self.tree.match(active.path, active.salt)[0])
                if active.branch.state is BranchState.DONE:
                    self.loop.expect_more(active)
        self.drop_ended()  # a branch that was cancelled in this step would wait again
        if any(r.urgency is not priority for r in self._listed):
            for active in [r for r in self._listed if r.urgency is Priority.BACKGROUND]:
                self.requeue(active)

    def suspend_least(self) -> bool:
        """Let the least important branch wait, as cells ran out; end it where it is the last one."""
        live = [r for r in self._listed if r.seq >= 0]
        if not live:
            return False
        least = max(live, key=lambda r: (r.request.generation.number, not r.prompting, r.branch.index))
        if len(live) > 1 or least.urgency is Priority.BACKGROUND:
            self.lacks_room = self.lacks_room or len(live) == 1
            self.requeue(least)
            return True
        for active in least.request.branches if least.every_token else [least]:
            if active.branch.live:
                self.loop.finish(active, FinishReason.CONTEXT, None)
        self.drop_ended()
        return True

    def preempt(self, request: ActiveRequest) -> bool:
        """Let a branch wait that has more than its share, for one of ``request``; False if none has."""
        running = [r for r in self.running if r.request is not request]
        if not running or request.asked.priority is Priority.BACKGROUND:
            return False
        clients, requests = self._count_running()
        own = [r for r in running if r.request.client == request.client]
        victim = max(running, key=lambda r: (clients[r.request.client], requests[r.request], r.branch.index))
        if clients[victim.request.client] <= clients[request.client] + 1:
            victim = max(own, key=lambda r: (requests[r.request], r.branch.index), default=None)
            if victim is not None and requests[victim.request] <= requests[request] + 1:
                victim = None
        if victim is None and not requests[request]:
            done = [r for r in (own if clients[request.client] else running) if self._had_its_turn(r)]
            victim = min(done, key=lambda r: (r.since, -r.branch.index), default=None)
        if victim is not None:
            self.requeue(victim)
        return victim is not None

    def _count_running(self) -> tuple[Counter[Hashable], Counter[Hashable]]:
        """Return how many branches of each client and of each request run."""
        running = self.running
        return Counter(r.request.client for r in running), Counter(r.request for r in running)

    def _had_its_turn(self, active: ActiveBranch) -> bool:
        """Whether a branch has written enough for another to take its place.

        Where its text would be evaluated again, that is worth no shorter turn than reading it takes.
        """
        turn = TURN_TOKENS
        if not self.cache.returns(active.salt):
            turn = max(turn, active.length // READ_PER_WRITTEN)
        return len(active.buffer.ids) - active.tokens_at_start >= turn
