"""A step of the engine: commands, admission, one decode for all running branches, sampling, publishing.

Everything that changes the batch happens between decodes, on the engine thread, which never waits for a
reader. The scheduler knows nothing of model files, faces and stories.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .active import ActiveBranch
from .cache import Cache
from .commands import Commands, FunctionCall
from .generation import BranchCommand
from .model import Model
from .native.context import ABORTED, OK, Context
from .queue import SHORT_PROMPT, Queue, Step
from .sampling_loop import SamplingLoop
from .sampling_pool import SamplingPool
from .sizing import sampling_cores
from .threads import Threads
from .tree import Demand
from .types import EngineClosed, EngineError, EngineOptions, FinishReason, NativeError, Priority
from .verbs import INTERRUPTING, STARTING

SCORED_LOGITS = 6_000_000
"""Logits of a prompt that are scored in one step while branches write, which takes some 10 ms."""
COPYING_SHARE = 0.25
"""Of the time of a step, for copying idle text out of the cells before it. By 4 ms a step 32 branches of 1.1B
added more cells than left them, and each of their steps took 630 ms, not 530."""
WHOLE_CHUNK = 64
"""Rows of a prompt from which on more make reading no faster: 24 take 1.15 times as long each (1.1B)."""


@dataclass(slots=True)
class Counters:
    """Counts of what ``llama_decode`` was given, and the seconds that it took."""

    prompt_rows: int = 0
    branch_rows: int = 0
    decodes: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0


class Portion(NamedTuple):
    """Tokens of the path of a demand in the batch; their last row is ``row``."""

    demand: Demand
    tokens: list[int]
    row: int
    answers: bool  # whether the path ends with them


class Plan(NamedTuple):
    """The contents of a batch: a token of each branch that writes, then portions."""

    writing: Sequence[ActiveBranch] = ()
    portions: Sequence[Portion] = ()

    @property
    def prompt_rows(self) -> int:
        return sum(len(p.tokens) for p in self.portions)

    @property
    def demands(self) -> Sequence[Demand]:
        """All demands with tokens in the batch."""
        return [*self.writing, *(p.demand for p in self.portions)]


class ChunkBudget:
    """How many prompt tokens fit a slice of time, measured in earlier steps."""

    def __init__(self, seconds: float, most: int) -> None:
        self.seconds, self.most = seconds, most
        self.per_token = 0.0  # seconds; 0 while unknown
        self.row_step = 0.0  # seconds of a step in which branches write

    def size(self, writing: bool, abortable: bool) -> int:
        """Return the size of the next chunk in tokens; larger when no branch is writing."""
        if self.per_token == 0.0:
            return min(WHOLE_CHUNK, self.most)
        size = self.seconds / self.per_token
        if not writing and abortable:
            size = max(size * 8, min(WHOLE_CHUNK, size * 20))
        return max(8, min(self.most, int(size)))

    def record(self, seconds: float, prompt_rows: int, branch_rows: int) -> None:
        """Take a step of so many seconds and rows into account."""
        if not prompt_rows:
            self.row_step = _mean(self.row_step, seconds)
        elif prompt_rows >= 8:
            alone = seconds - (self.row_step if branch_rows else 0.0)
            self.per_token = _mean(self.per_token, max(alone, seconds * 0.1) / prompt_rows)


class Scheduler:
    """Runs requests on one context. All methods but :meth:`interrupt` belong to its thread."""

    def __init__(
        self, model: Model, context: Context, cache: Cache, options: EngineOptions, *, window: int,
        abortable: bool, threads: Threads | None,
    ) -> None:  # fmt: skip
        self.context, self.cache, self.window = context, cache, window
        self.loop = SamplingLoop(
            model, context, cache, pool=SamplingPool(sampling_cores(options)), window=window,
            most=options.max_branches,
        )  # fmt: skip
        self.queue = Queue(
            self.loop, cache, window=window, cells=context.cells, max_branches=options.max_branches
        )
        self.queue.publish = self._publish_events
        self.commands = Commands(model, self.loop, self.queue)
        self.budget = ChunkBudget(options.step_seconds, context.max_rows)
        self.abortable = abortable
        self.threads, self._prompt_threads = threads, options.threads_batch
        self._threads_now = 0
        self.inbox: deque[BranchCommand | FunctionCall] = deque()
        self.counters = Counters()
        self._in_flight: Plan | None = None  # what is decoded now
        self.overlaps = False  # whether decodes return before they are computed
        self._idle_work_left = self._copies_late = False

    # ---- the step

    def step(self) -> bool:
        """Do one step; return False when there is nothing to do until the next command."""
        queue = self.queue
        self.context.rearm()
        queue.step += 1
        self.loop.now = time.monotonic()
        if (self.inbox or not queue.steady) and not self._prepare_step():
            self.publish()
            return True
        plan = self._plan()
        worked = bool(plan.writing or plan.portions)
        if worked:
            background, self._idle_work_left = queue.runs_background, True
            self._decode(plan)
            if not background:
                queue.last_worked = time.monotonic()  # not before it: a step may take longer than a rest
        if not (self.overlaps and queue.steady):
            self.publish()  # else while the next step is computed
        if worked or self.inbox or queue.busy or queue.waits(Priority.NORMAL):
            return True
        more = self._work_while_idle()
        if not more and self.threads is not None:
            self.threads.rest()
        return more

    def _prepare_step(self) -> bool:
        """Carry out commands and choose what runs in the next step.

        Return False where a long prompt waits until idle text has left the cells, a portion at a time.
        """
        queue = self.queue
        while self.inbox:
            queue.lacks_room, self._idle_work_left = False, True
            self.commands.handle(self.inbox.popleft())
        written = self.loop.generated
        queue.drop_ended()
        queue.suspend_background()
        admitted = queue.admit()
        if self.loop.generated > written:
            self.publish()  # first tokens, from stored logits, do not wait for the decode
            if not queue.runs_background:
                queue.last_worked = self.loop.now
        # The first token of what was picked is written before anything is copied: a copy takes as long as a
        # step. But every token of a long prompt would be compared with idle text. Nothing leaves for
        # background work, nor while nobody waits, but behind a request that wrote one token only.
        late, alone = self._copies_late, self._can_wait
        short = sum(map(queue.tokens_left, queue.reading)) <= SHORT_PROMPT
        self._copies_late = short and not alone and not queue.writing
        stays = not late if alone else self._copies_late
        cleared = stays or self.cache.evict_idle(self.budget.row_step * COPYING_SHARE)
        queue.steady = not admitted and cleared and queue.all_writing
        return cleared or bool(queue.writing)

    def interrupt(self) -> None:
        """Abort the running decode if a command makes it useless. For any thread."""
        if self._is_unwanted():
            self.context.abort()

    def pause_background(self) -> None:
        """Let background work rest for a moment from now on. For any thread."""
        self.queue.last_worked = time.monotonic()
        if self._in_flight is not None and self._can_wait:
            self.context.abort()

    def fail_all(self, error: EngineError) -> None:
        """End every request with ``error``; the cache starts empty."""
        self.queue.fail_all(error)
        self._in_flight = None
        self._idle_work_left = False  # or what failed then would fail for ever
        self.publish()

    # ---- planning

    def _plan(self) -> Plan:
        """Fill the next batch, for which there is room in the cells."""
        queue, cache, tip = self.queue, self.cache, self.cache.tree.tip
        for active in [r for r in queue.writing if tip[r.seq].end >= self.window]:
            self.loop.finish(active, FinishReason.CONTEXT, None)
            queue.drop_ended()
        for demand in list(queue.reading):
            if not demand.every_token and not cache.catch_up(demand):
                queue.requeue(demand)
        chunk = self.budget.size(bool(queue.writing), self.abortable)
        while True:
            reading: Sequence[ActiveBranch] = queue.reading
            if len(reading) > 1 and queue.step % 4:  # a short prompt would wait long behind a long one
                reading = sorted(reading, key=lambda d: min(queue.tokens_left(d), SHORT_PROMPT + 1))
            plan = self._fill_batch(queue.writing, reading, chunk)
            if cache.free_cells(len(plan.writing) + plan.prompt_rows, queue.runs_background):
                break
            free = self.context.cells - cache.used_cells - len(plan.writing)
            if plan.portions and free >= 1 and chunk > 1:
                chunk = min(chunk // 2, free)
            elif not queue.suspend_least():
                return Plan()
        if len(queue.reading) > 1:
            queue.reading.rotate(-1)  # the next chunk begins with another demand
        return plan

    def _fill_batch(self, writing: Sequence[ActiveBranch], reading: Sequence[Demand], chunk: int) -> Plan:
        """Fill the batch with ``writing``, one token each, and at most ``chunk`` tokens of ``reading``.

        A token of a prompt that another demand evaluates in the same step is left to that one.
        """
        batch, tips = self.context.batch, self.cache.tree.tip
        batch.clear()
        if writing:
            seqs, tokens = [d.seq for d in writing], [d.last_token for d in writing]
            batch.add_rows(tokens, [tips[seq].end for seq in seqs], seqs)
        under_way = {(tips[d.seq], d.last_token) for d in writing} if reading else set[Step]()
        portions: list[Portion] = []
        outputs = self.context.max_outputs - len(writing)
        room = min(chunk, self.context.max_rows - len(writing))
        for demand in reading:
            if room <= 0 or outputs <= 0:
                break
            tip, path = tips[demand.seq], demand.path
            step = tip, path[tip.end]
            if step in under_way and not demand.every_token:
                continue
            under_way.add(step)
            most = room
            if demand.every_token:  # a step beside branches is not to last long
                scored = max(8, SCORED_LOGITS // self.context.n_vocab) if writing else outputs
                most = min(room, outputs, scored)
            tokens = path[tip.end : tip.end + most]
            answers = tip.end + len(tokens) == len(path)
            wanted = len(tokens) if demand.every_token else int(answers)
            row = batch.add_run(tokens, tip.end, demand.seq, wanted)
            portions.append(Portion(demand, tokens, row, answers))
            room -= len(tokens)
            outputs -= wanted
        return Plan(writing, portions)

    # ---- decoding

    def _decode(self, plan: Plan) -> None:
        if self.abortable:
            self._in_flight = plan
            if self._is_unwanted():  # the command came before _in_flight was set, and could not abort
                self._in_flight = None
                return
        code = self._run_batch(plan.prompt_rows, len(plan.writing), bool(plan.portions))
        self._in_flight = None
        if code != OK:
            self._give_way(plan, code)
        else:
            self._record(plan)
            self._apply_results(plan)

    def _run_batch(self, prompt_rows: int, branch_rows: int, prompt: bool) -> int:
        """Decode the batch of so many rows, count it, and return llama.cpp's code.

        ``prompt``: use the threads for prompts. The step before is published while a GPU computes this one.
        """
        if self.threads is not None:  # fewer while other programs use some of the cores
            threads = self.loop.pool.cores = self.threads.count()
            if prompt:
                threads = self._prompt_threads or threads
            if threads != self._threads_now:
                self.context.set_threads(threads, threads)
                self._threads_now = threads
        started = time.perf_counter()
        code = self.context.decode(*((self._publish_events,) if self.overlaps else ()))
        seconds = time.perf_counter() - started
        if code == OK:
            self.budget.record(seconds, prompt_rows, branch_rows)
            counters = self.counters
            counters.decodes += 1
            counters.prompt_rows += prompt_rows
            counters.branch_rows += branch_rows
            if prompt_rows:
                counters.prompt_seconds += seconds
            else:
                counters.decode_seconds += seconds
        return code

    def _give_way(self, plan: Plan, code: int) -> None:
        """Make room after a decode that failed for lack of it; forget one that was aborted."""
        if code == ABORTED:
            for demand in plan.demands:
                self.context.remove(demand.seq, self.cache.tree.tip[demand.seq].end)
        elif self.queue.busy and not self.cache.evict() and not self.queue.suspend_least():
            raise NativeError("llama_decode", "no free cell, though none should be needed")

    @property
    def _can_wait(self) -> bool:
        """Whether what is decoded is background work, or the last tokens of ended branches."""
        return self.queue.runs_background or not self.queue.busy

    def _is_unwanted(self) -> bool:
        """Whether the running decode is broken off: an abort discards all of its rows.

        That is so for what can wait when other work comes, and for a single request that is cancelled, or
        of which a branch is to end or restarts while it reads its prompt.
        """
        plan = self._in_flight
        commands = [item for item in list(self.inbox) if isinstance(item, BranchCommand)]
        if plan is None or not commands:
            return False
        requests = {d.request.generation for d in plan.demands if isinstance(d, ActiveBranch)}
        for command in commands:
            ends = command.verb == "cancel" or (plan.portions and command.verb in INTERRUPTING)
            urgent = command.generation.request.priority is not Priority.BACKGROUND
            comes = urgent and command.verb in STARTING and self._can_wait
            if comes or (ends and requests == {command.generation}):
                return True
        return False

    def read_for_caller(self, demands: Sequence[Demand]) -> Sequence[Portion]:
        """Decode the next tokens of ``demands``, which belong to no request, between two steps.

        The demands have sequences. Returns what was decoded: nothing where there is no room. Raises
        EngineClosed where closing the engine ends the decode. After any other error every request has ended
        and the cache is empty.
        """
        self.context.rearm()
        if not all(map(self.cache.catch_up, demands)):
            return ()
        chunk = self.context.max_rows
        while chunk:
            plan = self._fill_batch((), demands, chunk)
            if self.cache.free_cells(plan.prompt_rows):
                try:
                    code = self._run_batch(plan.prompt_rows, 0, plan.prompt_rows > self.context.sequences)
                    if code == OK:
                        self._record(plan)
                        return plan.portions
                except BaseException as error:  # the native memory may be in any state
                    known = isinstance(error, EngineError)
                    self.fail_all(error if known else NativeError("llama_decode", repr(error)))
                    raise
                if code == ABORTED:
                    self._give_way(plan, code)
                    raise EngineClosed("the engine was closed")
                if self.cache.evict():
                    continue
            chunk = min(chunk, plan.prompt_rows) // 2
        return ()

    # ---- results

    def _record(self, plan: Plan) -> None:
        """Record the rows of a successful decode in the cache."""
        for active in plan.writing:
            self.cache.advance(active.seq, (active.last_token,), written=True)
        for portion in plan.portions:
            self.cache.advance(portion.demand.seq, portion.tokens)

    def _apply_results(self, plan: Plan) -> None:
        """Give each branch of a successful decode its logits, and those that read their progress."""
        self.loop.now = time.monotonic()
        self.loop.next_tokens(list(enumerate(plan.writing)))
        for reader, tokens, row, answers in plan.portions:
            if reader.seq >= 0 and isinstance(reader, ActiveBranch):
                self._advance_reader(reader, len(tokens), row, answers)
        self.queue.drop_ended()

    def _advance_reader(self, active: ActiveBranch, tokens: int, row: int, at_end: bool) -> None:
        """Take account of so many evaluated tokens of a prompt or text, the last of them in ``row``."""
        request, end = active.request, self.cache.tree.tip[active.seq].end
        if active.every_token:
            for back in range(tokens - 1, -1, -1):
                request.score_prompt(end - back, self.context.logits(row - back))
        request.report_progress(min(end, len(request.ids)))
        if not at_end:
            return
        self.queue.reading.remove(active)
        if not active.prompting:
            self.queue.start_writing(active)
            self.loop.next_token(active, row)
            return
        self.cache.store_logits(active.seq, self.context.logits(row))
        self.cache.release(active)
        request.report_next_logprobs(self.context.logits(row))
        active.prompting = False  # it waits with its siblings to be admitted

    # ---- while nothing runs

    def _work_while_idle(self) -> bool:
        """Prepare for the next pick after a rest; return True when there may be more to do.

        It does one thing at a time, as a request may come.
        """
        if not self._idle_work_left or self.queue.seconds_of_rest(self.loop.now):
            return False
        if self.loop.pending:
            self._evaluate_ends()
            return True
        if self.cache.archive_next():
            self.queue.lacks_room = False
            return True
        self.cache.write_story()
        self._idle_work_left = False
        return False

    def seconds_to_work(self, now: float) -> float | None:
        """Return the seconds until work that needs no command; None where that is no question of time."""
        queue = self.queue
        waits = queue.waits(Priority.BACKGROUND) and not queue.lacks_room
        if not (self._idle_work_left or waits or queue.runs_background):
            return None
        return queue.seconds_of_rest(now)

    def _evaluate_ends(self) -> None:
        """Evaluate the last tokens of ended branches, the newest first, in one batch.

        A sampled token is evaluated only when its branch continues, so continuing would begin with a decode.
        Nothing that was used is lost for it.
        """
        cache, rows = self.cache, list[ActiveBranch]()
        try:
            while self.loop.pending and len(rows) < self.context.max_outputs:
                active = self.loop.pending.pop()
                path, before = active.path, active.length - 1
                if active.seq >= 0 or not 0 < before < self.window:
                    continue
                if cache.tree.logits_after(path, active.salt) is not None:
                    continue
                if cache.tree.resumable(path, active.salt, before).end < before:
                    continue
                room = cache.count_cells(path, active.salt, before)[0] + len(rows)
                urgency, active.urgency = active.urgency, Priority.BACKGROUND
                if cache.free_cells(room, background=True) and cache.allocate(active, path, before):
                    rows.append(active)
                active.urgency = urgency
            whole = [active for active in rows if cache.tree.tip[active.seq].end == active.length - 1]
            if whole:
                plan = self._fill_batch(whole, (), 0)
                self._in_flight = plan if self.abortable else None
                code = ABORTED if self.inbox else self._run_batch(0, len(whole), False)
                self._in_flight = None
                if code == OK:
                    self._record(plan)
                    for row, active in enumerate(whole):
                        cache.store_logits(active.seq, self.context.logits(row))
                elif code == ABORTED:  # somebody picked one of them meanwhile
                    self._give_way(plan, code)
                    self.loop.pending.extend(reversed(whole))
        finally:  # none keeps a sequence over a failure, which empties the cache
            for active in rows:
                cache.release(active)

    # ---- publishing

    def publish(self) -> None:
        """Publish the events of this step to all readers, and release finished requests."""
        if self.queue.steady:
            self._publish_events()
            return
        finished = [request for request in self.queue.requests if not request.live]
        for request in finished:
            if request.generation.error is None and not request.failed:
                request.events.append(request.completed())
        self._publish_events()
        for request in finished:
            request.templates.clear()
        if finished:
            self.queue.requests = [request for request in self.queue.requests if request.live]

    def _publish_events(self) -> None:
        """Publish the pending events of all requests."""
        for request in self.queue.requests:
            if request.events:
                events, request.events = request.events, []
                request.generation.publish(events)


def _mean(old: float, new: float) -> float:
    return new if old == 0.0 else old * 0.8 + new * 0.2
