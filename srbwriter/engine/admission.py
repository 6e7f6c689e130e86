"""Letting waiting branches in: by priority, share and age, where the cache holds most of their path.

A branch whose prompt is not resident waits for the request's trunk, which evaluates it once for
all of them. Knows nothing of decoding.
"""

from __future__ import annotations

from .cache import Cache
from .lanes import Lanes, Shares
from .prefix import common_prefix
from .runner import Run, Runner, Trunk, waiting
from .steering import Steering
from .types import BranchState, EngineError, FinishReason, PromptProgress
from .writing import Writer

RESERVE = 16  # cells a branch should find free before it is let in
SHORT = 64
"""Tokens of a prompt that do not keep others waiting."""
SECOND_THOUGHTS = 0.15
"""Seconds that a request waits while a more important one writes. Programs that complete while somebody types
ask and cancel ten times in that; each time they would cost the writer a step."""


class Admission:
    """``window`` is how many positions one branch may use."""

    def __init__(
        self, lanes: Lanes, writer: Writer, cache: Cache, steering: Steering, *, window: int, cells: int,
        max_branches: int,
    ) -> None:  # fmt: skip
        self.lanes, self.writer, self.cache, self.steering = lanes, writer, cache, steering
        self.window, self.cells, self.max_branches = window, cells, max_branches
        self.second_thoughts = SECOND_THOUGHTS
        self.prompt_tokens = 0
        self.reused_tokens = 0

    def admit(self) -> None:
        """Let in what fits, those first that have least.

        The first that does not fit keeps its place; only short prompts pass it.
        """
        queue = [r for r in self.lanes.runs if not r.request.strict and any(map(waiting, r.runners))]
        if len(queue) > 1:
            shares = Shares(self.lanes.running)
            queue.sort(key=lambda r: (r.order[0], *shares.of(r), _waits_since(r), r.order[1]))
        held_up = False
        for run in queue:
            if self.too_new(run) or (held_up and len(run.ids) > SHORT):
                continue
            try:
                held_up = not self._admit_run(run) or held_up
            except EngineError as error:
                self.writer.fail_run(run, error)
                self.lanes.retire()

    def too_new(self, run: Run) -> bool:
        """Whether a request may yet be thought better of, and would be in the way of a more important one."""
        age = self.writer.now - run.generation.submitted_at
        return age < self.second_thoughts and any(
            track.run.request.priority < run.request.priority for track in self.lanes.writing
        )

    def _admit_run(self, run: Run) -> bool:
        """False when something is lacking that later requests must not take first."""
        for runner in [r for r in run.runners if waiting(r)]:
            if not runner.branch.live:
                continue
            if self.lanes.branch_count >= self.max_branches and not self.lanes.preempt(run):
                return False
            verdict = self._activate(runner)
            if verdict is False:
                if self.lanes.busy:
                    return False
                self.writer.finish(runner, FinishReason.CONTEXT, None)
            elif verdict is None:
                break  # its prompt is on the way
        return True

    def _activate(self, runner: Runner) -> bool | None:
        """Put a branch on a sequence. None: its prompt comes first. False: no room."""
        if self._ended_before_it_began(runner):
            return True
        run, path = runner.run, runner.path
        logits = self.cache.logits_after(path, run.space)
        most = len(path) if logits is not None else len(path) - 1
        held = self.cache.held(path, most, run.space)
        missing = held < len(run.ids) if runner.buffer.ids else logits is None
        if runner.base is run.ids and (missing or run.scoring):
            return self._start_trunk(run)
        if not self._room_for(len(path) - self.cache.resident(path, most, run.space), run):
            return False
        self._account(run, len(run.ids))
        if not self.writer.prepare(runner):
            return True
        lease = self.cache.lease(path, most, run.space)
        if lease is None:
            return False
        runner.seq, runner.since = lease.seq, self.lanes.step
        if lease.length == len(path) and logits is not None:
            self.lanes.write(runner)
            self.writer.sample_from(runner, logits, None)
            self.lanes.retire()
        else:
            self.lanes.feed(runner, tuple(path[lease.length :]))
        return True

    def _ended_before_it_began(self, runner: Runner) -> bool:
        """Whether there is nothing to write: the window is full, or no token was asked for."""
        if len(runner.path) > self.window and not self.steering.make_window(runner):
            self.writer.finish(runner, FinishReason.CONTEXT, None)
            return True
        run, ids = runner.run, runner.run.ids
        filled = self.cache.held(ids, None, run.space) == len(ids) and not run.scoring
        if runner.limit <= len(runner.buffer.ids) and (runner.buffer.ids or filled):
            self._account(runner.run, len(ids))
            self.writer.finish(runner, FinishReason.LENGTH, None)
            return True
        return False

    def _start_trunk(self, run: Run) -> bool | None:
        """Evaluate the prompt, unless that is under way."""
        if run.trunk is not None or self._same_prompt_under_way(run):
            return None
        limit = len(run.generation.prompt_logprobs) if run.scoring else len(run.ids) - 1
        if not self._room_for(len(run.ids) - self.cache.resident(run.ids, limit, run.space), run):
            return False
        lease = self.cache.lease(run.ids, limit, run.space)
        if lease is None:
            return False
        trunk = run.trunk = Trunk(run)
        trunk.seq, trunk.todo, trunk.scored = lease.seq, run.ids[lease.length :], lease.length
        self._account(run, lease.length)
        for runner in run.runners:
            if waiting(runner):
                self.writer.set_state(runner, BranchState.PROMPT)
        self.lanes.feeding.append(trunk)
        return None

    def _same_prompt_under_way(self, run: Run) -> bool:
        """Another request is evaluating tokens that this one needs too: wait and share them.

        They become as urgent as this request.
        """
        held = self.cache.held(run.ids, None, run.space)
        for track in self.lanes.feeding:
            if isinstance(track, Trunk) and track.run is not run and track.run.space == run.space:
                shared = common_prefix(track.run.ids, run.ids, 0, len(run.ids))
                if shared > max(held, self.cache.tree.tip[track.seq].end):
                    track.urgency = min(track.urgency, run.request.priority)
                    return True
        return False

    def _account(self, run: Run, cached: int) -> None:
        """The prompt is asked for: ``cached`` of its tokens were in the cache."""
        if run.accounted:
            return
        run.accounted = True
        generation = run.generation
        generation.cached_tokens = generation.prompt_done = cached
        self.prompt_tokens += len(run.ids)
        self.reused_tokens += cached
        run.events.append(PromptProgress(cached, len(run.ids), cached))

    def _room_for(self, cells: int, run: Run) -> bool:
        """Whether ``cells`` more and some to write in can be had, taking from lesser requests."""
        while True:
            promised = cells + self.lanes.outstanding
            wanted = promised + RESERVE * (1 + self.lanes.branch_count) if self.lanes.busy else cells + 1
            if self.cells - self.cache.live_cells >= wanted:
                return True
            if not self.lanes.preempt(run):
                return False


def _waits_since(run: Run) -> int:
    """The step at which the first of its branches that wait began to."""
    return min(runner.since for runner in run.runners if waiting(runner))
