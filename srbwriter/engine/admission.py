"""Letting waiting branches in: by priority, share and age, where the cache holds most of their path.

A branch whose prompt is not resident waits for the request's trunk, which evaluates it once for
all of them. Knows nothing of decoding.
"""

from __future__ import annotations

from .active import ActiveBranch, ActiveRequest, Trunk, waiting
from .cache import Cache
from .commands import Commands
from .queue import Queue, Shares
from .sampling_loop import SamplingLoop
from .tree import common_prefix
from .types import BranchState, EngineError, FinishReason, PromptProgress

RESERVE = 16  # cells a branch should find free before it is let in
SHORT = 64
"""Tokens of a prompt that do not keep others waiting."""
SECOND_THOUGHTS = 0.15
"""Seconds that a request waits while a more important one writes. Programs that complete while somebody types
ask and cancel ten times in that; each time they would cost the writer a step."""


class Admission:
    """``window`` is how many positions one branch may use."""

    def __init__(
        self, queue: Queue, loop: SamplingLoop, cache: Cache, commands: Commands, *, window: int, cells: int,
        max_branches: int,
    ) -> None:  # fmt: skip
        self.queue, self.loop, self.cache, self.commands = queue, loop, cache, commands
        self.window, self.cells, self.max_branches = window, cells, max_branches
        self.second_thoughts = SECOND_THOUGHTS
        self.prompt_tokens = 0
        self.reused_tokens = 0

    def admit(self) -> None:
        """Let in what fits, those first that have least.

        The first that does not fit keeps its place; only short prompts pass it.
        """
        queue = [r for r in self.queue.requests if not r.asked.strict and any(map(waiting, r.branches))]
        if len(queue) > 1:
            shares = Shares(self.queue.running)
            queue.sort(key=lambda r: (r.order[0], *shares.of(r), _waits_since(r), r.order[1]))
        held_up = False
        for request in queue:
            if self.too_new(request) or (held_up and len(request.ids) > SHORT):
                continue
            try:
                held_up = not self._admit_request(request) or held_up
            except EngineError as error:
                self.loop.fail_request(request, error)
                self.queue.retire()

    def too_new(self, request: ActiveRequest) -> bool:
        """Whether a request may yet be thought better of, and would be in the way of a more important one."""
        age = self.loop.now - request.generation.submitted_at
        return age < self.second_thoughts and any(
            track.request.asked.priority < request.asked.priority for track in self.queue.writing
        )

    def _admit_request(self, request: ActiveRequest) -> bool:
        """False when something is lacking that later requests must not take first."""
        for active in [r for r in request.branches if waiting(r)]:
            if not active.branch.live:
                continue
            if self.queue.branch_count >= self.max_branches and not self.queue.preempt(request):
                return False
            verdict = self._activate(active)
            if verdict is False:
                if self.queue.busy:
                    return False
                self.loop.finish(active, FinishReason.CONTEXT, None)
            elif verdict is None:
                break  # its prompt is on the way
        return True

    def _activate(self, active: ActiveBranch) -> bool | None:
        """Put a branch on a sequence. None: its prompt comes first. False: no room."""
        if self._ended_before_it_began(active):
            return True
        request, path = active.request, active.path
        logits = self.cache.logits_after(path, request.space)
        most = len(path) if logits is not None else len(path) - 1
        held = self.cache.held(path, most, request.space)
        missing = held < len(request.ids) if active.buffer.ids else logits is None
        if active.base is request.ids and (missing or request.scoring):
            return self._start_trunk(request)
        if not self._room_for(len(path) - self.cache.resident(path, most, request.space), request):
            return False
        self._account(request, len(request.ids))
        if not self.loop.prepare(active):
            return True
        lease = self.cache.lease(path, most, request.space)
        if lease is None:
            return False
        active.seq, active.since = lease.seq, self.queue.step
        if lease.length == len(path) and logits is not None:
            self.queue.write(active)
            self.loop.sample_from(active, logits, None)
            self.queue.retire()
        else:
            self.queue.feed(active, tuple(path[lease.length :]))
        return True

    def _ended_before_it_began(self, active: ActiveBranch) -> bool:
        """Whether there is nothing to write: the window is full, or no token was asked for."""
        if len(active.path) > self.window and not self.commands.make_window(active):
            self.loop.finish(active, FinishReason.CONTEXT, None)
            return True
        request, ids = active.request, active.request.ids
        filled = self.cache.held(ids, None, request.space) == len(ids) and not request.scoring
        if active.limit <= len(active.buffer.ids) and (active.buffer.ids or filled):
            self._account(active.request, len(ids))
            self.loop.finish(active, FinishReason.LENGTH, None)
            return True
        return False

    def _start_trunk(self, request: ActiveRequest) -> bool | None:
        """Evaluate the prompt, unless that is under way."""
        if request.trunk is not None or self._same_prompt_under_way(request):
            return None
        limit = len(request.generation.prompt_logprobs) if request.scoring else len(request.ids) - 1
        if not self._room_for(
            len(request.ids) - self.cache.resident(request.ids, limit, request.space), request
        ):
            return False
        lease = self.cache.lease(request.ids, limit, request.space)
        if lease is None:
            return False
        trunk = request.trunk = Trunk(request)
        trunk.seq, trunk.todo, trunk.scored = lease.seq, request.ids[lease.length :], lease.length
        self._account(request, lease.length)
        for active in request.branches:
            if waiting(active):
                self.loop.set_state(active, BranchState.PROMPT)
        self.queue.feeding.append(trunk)
        return None

    def _same_prompt_under_way(self, request: ActiveRequest) -> bool:
        """Another request is evaluating tokens that this one needs too: wait and share them.

        They become as urgent as this request.
        """
        held = self.cache.held(request.ids, None, request.space)
        for track in self.queue.feeding:
            if (
                isinstance(track, Trunk)
                and track.request is not request
                and track.request.space == request.space
            ):
                shared = common_prefix(track.request.ids, request.ids, 0, len(request.ids))
                if shared > max(held, self.cache.tree.tip[track.seq].end):
                    track.urgency = min(track.urgency, request.asked.priority)
                    return True
        return False

    def _account(self, request: ActiveRequest, cached: int) -> None:
        """The prompt is asked for: ``cached`` of its tokens were in the cache."""
        if request.accounted:
            return
        request.accounted = True
        generation = request.generation
        generation.cached_tokens = generation.prompt_done = cached
        self.prompt_tokens += len(request.ids)
        self.reused_tokens += cached
        request.events.append(PromptProgress(cached, len(request.ids), cached))

    def _room_for(self, cells: int, request: ActiveRequest) -> bool:
        """Whether ``cells`` more and some to write in can be had, taking from lesser requests."""
        while True:
            promised = cells + self.queue.outstanding
            wanted = promised + RESERVE * (1 + self.queue.branch_count) if self.queue.busy else cells + 1
            if self.cells - self.cache.live_cells >= wanted:
                return True
            if not self.queue.preempt(request):
                return False


def _waits_since(request: ActiveRequest) -> int:
    """The step at which the first of its branches that wait began to."""
    return min(active.since for active in request.branches if waiting(active))
