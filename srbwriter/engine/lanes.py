"""Who is running: requests, branches that write, tracks that are fed; and who gives way to whom.

Moves runners between running and waiting. What runs is shared between clients first, then between a client's
requests, then between their branches: nobody waits for long because another asked for much. Knows nothing of
batches and sampling beyond its names.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable

from .cache import Cache
from .runner import Run, Runner, Track, waiting
from .types import BranchState, EngineError, FinishReason
from .writing import Writer

QUANTUM = 8
"""Tokens that a branch may write before somebody who has nothing running takes its place."""


class Shares:
    """How many branches each client, and each request, has running."""

    def __init__(self, running: list[Runner]) -> None:
        self.of_clients: Counter[Hashable] = Counter(r.run.client for r in running)
        self.of_runs: Counter[Hashable] = Counter(r.run for r in running)

    def of(self, run: Run) -> tuple[int, int]:
        """Lower is served first."""
        return self.of_clients[run.client], self.of_runs[run]


class Lanes:
    """Lists of what runs, and the moves that keep them true."""

    def __init__(self, writer: Writer, cache: Cache) -> None:
        self.writer, self.cache = writer, cache
        self.runs: list[Run] = []
        self.writing: list[Runner] = []  # one token to evaluate each
        self.feeding: deque[Track] = deque()  # more than one
        self.step = 0  # of the engine
        self.pending: list[Runner] = []  # none before a slow grammar has been asked

    @property
    def busy(self) -> bool:
        return bool(self.writing or self.feeding or self.pending)

    @property
    def left_waiting(self) -> bool:
        """Whether the last one that ran made room for one that waits, which nobody has let in yet."""
        return not self.busy and any(waiting(runner) for run in self.runs for runner in run.runners)

    @property
    def branch_count(self) -> int:
        """Branches on a sequence."""
        return len(self.running)

    @property
    def outstanding(self) -> int:
        """Tokens of prompts under way that still want cells."""
        return sum(len(track.todo) for track in self.feeding)

    @property
    def running(self) -> list[Runner]:
        """Branches on a sequence."""
        return [*self.writing, *self.pending, *(t for t in self.feeding if isinstance(t, Runner))]

    # ---- on and off

    def write(self, runner: Runner) -> None:
        self.writing.append(runner)
        self.writer.set_state(runner, BranchState.WRITING)

    def feed(self, runner: Runner, todo: tuple[int, ...]) -> None:
        """Evaluate ``todo`` for a branch, and let it write on from there."""
        runner.todo = todo
        if len(todo) == 1:
            self.write(runner)
        else:
            self.feeding.append(runner)
            self.writer.set_state(runner, BranchState.PROMPT)

    def unlist(self, track: Track) -> None:
        if isinstance(track, Runner) and track in self.writing:
            self.writing.remove(track)
        elif track in self.feeding:
            self.feeding.remove(track)
        else:
            self.pending = [runner for runner in self.pending if runner is not track]

    def park(self, runner: Runner) -> None:
        """Back to waiting; what it wrote stays, and its cells as long as there is room."""
        self.unlist(runner)
        self.writer.detach(runner)
        runner.since = self.step
        self.writer.set_state(runner, BranchState.WAITING)

    def drop_trunk(self, run: Run) -> None:
        """Stop evaluating a prompt; the part that is done stays in the cache."""
        trunk, run.trunk = run.trunk, None
        if trunk is not None:
            self.unlist(trunk)
            self.cache.park(trunk.seq)

    def retire(self) -> None:
        """Take what has ended off the lists."""
        if any(r.seq < 0 or r.pending is not None for r in self.writing):  # what has ended has no sequence
            self.pending += [r for r in self.writing if r.pending is not None]
            self.writing = [r for r in self.writing if r.branch.live and r.pending is None]
        self.pending = [r for r in self.pending if r.pending is not None]
        for track in [t for t in self.feeding if isinstance(t, Runner) and not t.branch.live]:
            self.feeding.remove(track)
        for run in self.runs:
            if run.trunk is not None and not run.live:
                self.drop_trunk(run)

    def decided(self, runner: Runner) -> None:
        """The grammar was asked: the branch writes, or is taken off the list if it has ended."""
        self.pending.remove(runner)
        if not runner.run.request.strict:
            self.writing.append(runner)

    def forget(self, run: Run) -> None:
        """Give back what a request holds besides its place in the cache."""
        self.drop_trunk(run)
        run.forget()

    def fail_all(self, error: EngineError) -> None:
        """After a native failure: every request ends, the cache starts empty."""
        for run in self.runs:
            run.trunk = None
            for runner in run.runners:
                runner.seq = -1
            self.writer.fail_run(run, error)
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
        if live and isinstance(live[0], Runner):
            self.writer.finish(live[0], FinishReason.CONTEXT, None)
            self.retire()
            return True
        return False

    def preempt(self, run: Run) -> bool:
        """Take a sequence from what is less urgent than ``run``, or from whoever has more than a share."""
        priority = run.request.priority
        lesser = [t for t in (*self.writing, *self.feeding, *self.pending) if t.urgency > priority]
        if lesser:
            self._suspend(max(lesser, key=_rank))
            return True
        victim = self._beyond_its_share(run)
        if victim is not None:
            self.park(victim)
        return victim is not None

    def _beyond_its_share(self, run: Run) -> Runner | None:
        """A branch that ``run`` may take the place of."""
        running = [r for r in self.running if r.urgency == run.request.priority and r.run is not run]
        if not running:
            return None
        shares = Shares(self.running)
        clients, requests = shares.of_clients, shares.of_runs
        most = max(running, key=lambda r: (clients[r.run.client], requests[r.run], r.branch.index))
        if clients[most.run.client] > clients[run.client] + 1:
            return most
        own = [r for r in running if r.run.client == run.client]
        most = max(own, key=lambda r: (requests[r.run], r.branch.index), default=None)
        if most is not None and requests[most.run] > requests[run] + 1:
            return most
        if requests[run]:
            return None
        longest = [r for r in (running if not clients[run.client] else own) if self.step - r.since >= QUANTUM]
        return min(longest, key=lambda r: (r.since, -r.branch.index), default=None)

    def _suspend(self, track: Track) -> None:
        if isinstance(track, Runner):
            self.park(track)
        else:
            self.drop_trunk(track.run)


def _rank(track: Track) -> tuple[int, int, int]:
    """Lower is more important: priority, then age, then the branch's place."""
    order = int(track.urgency), track.run.generation.number
    return (*order, track.branch.index if isinstance(track, Runner) else -1)
