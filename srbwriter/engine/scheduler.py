"""One step of the engine: commands, admission, a decode for everyone, sampling, publishing.

Everything that changes the batch happens between decodes, on the engine thread, which never waits
for a reader. Knows no model file, no text faces and no story.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .batching import Batcher, ChunkBudget, Fed, Plan
from .cache import Cache
from .generation import Command
from .model import Model
from .native.context import ABORTED, OK, Context
from .runner import Run, Runner, Track, Trunk, score, waiting
from .types import (
    BranchState,
    EngineError,
    EngineOptions,
    FinishReason,
    InvalidRequest,
    NativeError,
    Priority,
    PromptProgress,
)
from .writing import Writer

if TYPE_CHECKING:
    from .generation import Generation

log = logging.getLogger(__name__)

RESERVE = 16  # cells a branch should find free before it is let in


class Scheduler:
    """Runs requests on one context. All methods but :meth:`interrupt` belong to its thread."""

    def __init__(
        self, model: Model, context: Context, cache: Cache, options: EngineOptions, *, window: int, abortable: bool
    ) -> None:
        self.model, self.context, self.cache = model, context, cache
        self.window = window  # positions one branch may use
        self.max_branches = options.max_branches
        self.writer = Writer(model, context, cache)
        self.batcher = Batcher(context, cache, share=not model.recurrent)
        self.budget = ChunkBudget(options.step_seconds, context.max_rows)
        self.abortable = abortable
        self.commands: deque[Command] = deque()
        self.runs: list[Run] = []
        self.writing: list[Runner] = []
        self.feeding: deque[Track] = deque()
        self.counters: dict[str, float] = dict.fromkeys(
            ("prompt_tokens", "reused_tokens", "prompt_rows", "branch_rows", "decodes", "prompt_seconds",
             "decode_seconds"), 0)
        self._in_flight: frozenset[int] = frozenset()
        from .steering import Steering  # the verbs know the scheduler, not the other way round

        self.steering = Steering(self)

    # ---- the step

    def step(self) -> bool:
        """Do one step; False when there is nothing to do until the next command."""
        self.context.rearm()
        while self.commands:
            self.steering.handle(self.commands.popleft())
        self.writer.now = time.monotonic()
        self.admit()
        plan = self._plan()
        if plan.rows or plan.fed:
            self._decode(plan)
        self._publish()
        return bool(plan.rows or plan.fed or self.commands)

    def interrupt(self, generation: Generation) -> None:
        """From any thread: do not finish a long prompt chunk of this request first."""
        if self.abortable and generation.number in self._in_flight:
            self.context.abort()

    def _decode(self, plan: Plan) -> None:
        if self.abortable and plan.prompt_rows:
            self._in_flight = frozenset(f.track.run.generation.number for f in plan.fed)
            if self.commands:  # posted before the mark was up: it could not interrupt
                self._in_flight = frozenset()
                return
        started = time.perf_counter()
        code = self.context.decode()
        seconds = time.perf_counter() - started
        self._in_flight = frozenset()
        if code == OK:
            self._count(plan, seconds)
            self._settle(plan)
        elif code == ABORTED:
            self.batcher.roll_back(plan)
        elif not self._relieve():
            raise NativeError("llama_decode", "no free cell, though none should be needed")

    def _count(self, plan: Plan, seconds: float) -> None:
        prompt, branches = plan.prompt_rows, len(plan.rows)
        self.budget.learn(seconds, prompt, branches)
        counters = self.counters
        counters["decodes"] += 1
        counters["prompt_rows"] += prompt
        counters["branch_rows"] += branches
        counters["prompt_seconds" if prompt else "decode_seconds"] += seconds

    def _settle(self, plan: Plan) -> None:
        self.batcher.settle(plan)
        self.writer.now = time.monotonic()
        next_token = self.writer.next_token
        for row, runner in enumerate(plan.rows):
            if runner.seq >= 0:  # a callback's error may have ended its whole request
                next_token(runner, row)
        for row, others in plan.shared.items():
            for runner in others:
                if runner.seq >= 0:
                    next_token(runner, row)
        for fed in plan.fed:
            if fed.track.seq >= 0:
                self._fed(fed)
        self._drop_dead()

    def _fed(self, fed: Fed) -> None:
        track = fed.track
        if isinstance(track, Runner):
            if not track.todo:
                self.feeding.remove(track)
                self.writing.append(track)
                self.writer.set_state(track, BranchState.WRITING)
                self.writer.next_token(track, fed.row)
        elif isinstance(track, Trunk):
            if fed.scored:
                self._score_prompt(track, fed)
            self._trunk_grew(track, fed.row)

    def _trunk_grew(self, trunk: Trunk, row: int) -> None:
        run = trunk.run
        generation = run.generation
        generation.prompt_done = len(run.ids) - len(trunk.todo)
        run.events.append(PromptProgress(generation.prompt_done, len(run.ids), generation.cached_tokens))
        if trunk.todo:
            return
        self.feeding.remove(trunk)
        run.trunk = None
        self.cache.store_logits(trunk.seq, self.context.logits(row))
        self.cache.park(trunk.seq)

    def _score_prompt(self, trunk: Trunk, fed: Fed) -> None:
        run = trunk.run
        best = run.request.prompt_logprobs or 0
        for row in range(fed.row - fed.count + 1, fed.row + 1):
            trunk.scored += 1
            if trunk.scored < len(run.ids):
                logits = self.context.logits(row)
                run.generation.prompt_logprobs.append(score(logits, run.ids[trunk.scored], best))

    def _retire(self) -> None:
        """Take branches that ended off the lists."""
        if any(not r.branch.live for r in self.writing):
            self.writing = [r for r in self.writing if r.branch.live]

    def _publish(self) -> None:
        finished = False
        for run in self.runs:
            if not run.live:
                finished = True
                if run.generation.error is None and not self._failed(run):
                    run.events.append(run.completed())
            if run.events:
                events, run.events = run.events, []
                run.generation.publish(events)
        if finished:
            for run in self.runs:
                if not run.live:
                    self.forget(run)
            self.runs = [run for run in self.runs if run.live]

    def _failed(self, run: Run) -> bool:
        return any(r.branch.state is BranchState.FAILED for r in run.runners)

    def forget(self, run: Run) -> None:
        """Give back what a request holds besides its place in the cache."""
        if run.trunk is not None:
            self.drop_trunk(run)
        run.close()

    # ---- admission

    def admit(self) -> None:
        """Let waiting branches in, by priority and age, as far as cells and sequences allow."""
        for run in sorted((r for r in self.runs if any(map(waiting, r.runners))), key=lambda r: r.order):
            run.admitted = True
            try:
                if not self._admit_run(run):
                    break
            except EngineError as error:
                self.writer.fail_run(run, error)
                self._drop_dead()

    def _admit_run(self, run: Run) -> bool:
        """False when something is lacking that later requests must not take first."""
        for runner in [r for r in run.runners if waiting(r)]:
            if not runner.branch.live:
                continue
            if self._live_count() >= self.max_branches and not self._preempt(run):
                return False
            verdict = self._activate(runner)
            if verdict is False:
                if self.writing or self.feeding:
                    return False
                self.writer.finish(runner, FinishReason.CONTEXT, None)
            elif verdict is None:
                break  # its prompt is on the way
        return True

    def _live_count(self) -> int:
        return len(self.writing) + sum(1 for t in self.feeding if isinstance(t, Runner))

    def _activate(self, runner: Runner) -> bool | None:
        """Put a branch on a sequence. None: its prompt comes first. False: no room."""
        run, path = runner.run, runner.path
        if len(path) + 1 > self.window and not self.steering.make_window(runner):
            self.writer.finish(runner, FinishReason.CONTEXT, None)
            return True
        path = runner.path
        if runner.limit <= len(runner.buffer.ids) and (runner.buffer.ids or self._cached(run)):
            self.writer.finish(runner, FinishReason.LENGTH, None)
            return True
        logits = self.cache.logits_after(path)
        held = len(path) if logits is not None else self.cache.resident(path, len(path) - 1)
        if runner.base is run.ids and (held < len(run.ids) if runner.buffer.ids else logits is None):
            return self._start_trunk(run)
        if not self._room_for(len(path) - held, run):
            return False
        self._account(run, len(run.ids))
        self.writer.prepare(runner)
        lease = self.cache.lease(path, None if logits is not None else len(path) - 1)
        if lease is None:
            return False
        runner.seq = lease.seq
        if lease.length == len(path) and logits is not None:
            self.writing.append(runner)
            self.writer.set_state(runner, BranchState.WRITING)
            self.writer.sample_from(runner, logits, None)
            self._retire()
        else:
            self._feed(runner, path[lease.length :])
        return True

    def _cached(self, run: Run) -> bool:
        return self.cache.resident(run.ids) == len(run.ids)

    def _feed(self, runner: Runner, todo: Sequence[int]) -> None:
        runner.todo = tuple(todo)
        if len(todo) == 1:
            self.writing.append(runner)
            self.writer.set_state(runner, BranchState.WRITING)
        else:
            self.feeding.append(runner)
            self.writer.set_state(runner, BranchState.PROMPT)

    def _start_trunk(self, run: Run) -> bool | None:
        """Evaluate the prompt, unless that is under way."""
        if run.trunk is not None or self._same_prompt_under_way(run):
            return None
        scored = run.request.prompt_logprobs is not None and not run.generation.prompt_logprobs
        limit = 0 if scored else len(run.ids) - 1
        held = self.cache.resident(run.ids, limit)
        if not self._room_for(len(run.ids) - held, run):
            return False
        lease = self.cache.lease(run.ids, limit)
        if lease is None:
            return False
        trunk = run.trunk = Trunk(run)
        trunk.seq, trunk.todo = lease.seq, run.ids[lease.length :]
        self._account(run, lease.length)
        for runner in run.runners:
            if waiting(runner):
                self.writer.set_state(runner, BranchState.PROMPT)
        self.feeding.append(trunk)
        return None

    def _account(self, run: Run, cached: int) -> None:
        """The prompt is asked for: ``cached`` of its tokens were in the cache."""
        generation = run.generation
        if run.accounted:
            return
        run.accounted = True
        generation.cached_tokens = generation.prompt_done = cached
        self.counters["prompt_tokens"] += len(run.ids)
        self.counters["reused_tokens"] += cached
        run.events.append(PromptProgress(cached, len(run.ids), cached))

    def _same_prompt_under_way(self, run: Run) -> bool:
        """Another request is evaluating tokens that this one needs too: wait and share them."""
        held = self.cache.resident(run.ids)
        for track in self.feeding:
            if isinstance(track, Trunk) and track.run is not run:
                other = track.run.ids
                common = next((i for i, (a, b) in enumerate(zip(other, run.ids, strict=False)) if a != b),
                              min(len(other), len(run.ids)))
                if common > held + RESERVE:
                    return True
        return False

    def _room_for(self, cells: int, run: Run) -> bool:
        """Whether ``cells`` more and some to write in can be had, taking from lesser requests."""
        wanted = cells + RESERVE * (1 + self._live_count())
        alone = not self.writing and not self.feeding
        while self.context.cells - self.cache.live_cells < (cells + 1 if alone else wanted):
            if not self._preempt(run):
                return False
        return True

    # ---- pressure

    def _plan(self) -> Plan:
        """The next batch, for which there is room."""
        writing: Sequence[Runner] = self.writing
        feeding: Sequence[Track] = self.feeding
        first = min((t.run.request.priority for t in (*writing, *feeding)), default=Priority.NORMAL)
        if first is not Priority.BACKGROUND and any(r.request.priority is Priority.BACKGROUND for r in self.runs):
            writing = [r for r in writing if r.run.request.priority is not Priority.BACKGROUND]
            feeding = [t for t in feeding if t.run.request.priority is not Priority.BACKGROUND]
        writing = self._fitting(writing)
        chunk = self.budget.size(bool(writing), self.abortable)
        while True:
            plan = self.batcher.plan(writing, feeding, chunk)
            needed = len(plan.rows) + plan.prompt_rows
            if self.cache.make_room(needed):
                break
            free = self.context.cells - self.cache.tree.cells - len(plan.rows)
            if plan.fed and free >= 1:
                chunk = min(chunk // 2 or 1, free)
            elif not self._relieve():
                return Plan([], {}, [])
            else:
                writing = [r for r in writing if r.seq >= 0 and r.branch.live]
                feeding = [t for t in feeding if t.seq >= 0]
        if len(self.feeding) > 1:
            self.feeding.rotate(-1)  # the next chunk begins with someone else
        return plan

    def _fitting(self, writing: Sequence[Runner]) -> Sequence[Runner]:
        """Branches whose next position lies inside the window; the others end or shift here."""
        tip, window = self.cache.tree.tip, self.window
        full = [r for r in writing if tip[r.seq].end >= window]
        for runner in full:
            if self.steering.make_window(runner):
                self.park(runner)
            else:
                self.writer.finish(runner, FinishReason.CONTEXT, None)
        if full:
            self._retire()
            writing = [r for r in writing if r.seq >= 0 and r.branch.live]
        return writing

    def _relieve(self) -> bool:
        """Cells ran out: park the least branch, or end it where it is the last one."""
        live = [t for t in (*self.writing, *self.feeding) if t.seq >= 0]
        if len(live) > 1:
            self._suspend(max(live, key=self._rank))
            return True
        if live and isinstance(live[0], Runner):
            self.writer.finish(live[0], FinishReason.CONTEXT, None)
            self._drop_dead()
            return True
        return False

    def _preempt(self, run: Run) -> bool:
        """Take a sequence from a request of lower priority."""
        lesser = [t for t in (*self.writing, *self.feeding) if t.run.request.priority > run.request.priority]
        if not lesser:
            return False
        self._suspend(max(lesser, key=self._rank))
        return True

    def _rank(self, track: Track) -> tuple[int, int, int]:
        index = track.branch.index if isinstance(track, Runner) else -1
        return (*track.run.order, index)

    def _suspend(self, track: Track) -> None:
        if isinstance(track, Runner):
            self.park(track)
        else:
            self.drop_trunk(track.run)

    def park(self, runner: Runner) -> None:
        """Back to waiting; what it wrote stays, and its cells as long as there is room."""
        self.unlist(runner)
        self.writer.detach(runner)
        self.writer.set_state(runner, BranchState.WAITING)

    def unlist(self, track: Track) -> None:
        if isinstance(track, Runner) and track in self.writing:
            self.writing.remove(track)
        elif track in self.feeding:
            self.feeding.remove(track)

    def drop_trunk(self, run: Run) -> None:
        """Stop evaluating a prompt; the part that is done stays in the cache."""
        trunk, run.trunk = run.trunk, None
        if trunk is not None:
            self.unlist(trunk)
            self.cache.park(trunk.seq)

    def _drop_dead(self) -> None:
        self._retire()
        for track in [t for t in self.feeding if isinstance(t, Runner) and not t.branch.live]:
            self.feeding.remove(track)
        for run in self.runs:
            if run.trunk is not None and not run.live:
                self.drop_trunk(run)

    # ---- requests

    def add(self, run: Run) -> None:
        self.runs.append(run)

    def fail_all(self, error: EngineError) -> None:
        """After a native failure: every request ends, the cache starts empty."""
        for run in self.runs:
            run.trunk = None
            for runner in run.runners:
                runner.seq = -1
            self.writer.fail_run(run, error)
            run.admitted = True
        self.writing.clear()
        self.feeding.clear()
        self._publish()
        self.cache.clear()

    def check(self, runs: Sequence[Run]) -> None:
        """Refuse requests that ask for more branches than can ever run at once."""
        for run in runs:
            if len(run.runners) > self.max_branches:
                raise InvalidRequest("n", f"at most {self.max_branches} branches")
