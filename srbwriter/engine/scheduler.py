"""A step of the engine: commands, admission, one decode for all running branches, sampling, publishing.

Everything that changes the batch happens between decodes, on the engine thread, which never waits for a
reader. The scheduler knows nothing of model files, faces and stories.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .active import ActiveBranch, ScoringDemand
from .cache import Cache
from .commands import Commands
from .decode import ChunkBudget, Decoder, Plan, Portion
from .generation import Branch, Command, Generation
from .model import Model
from .native.context import ABORTED, OK, Context
from .queue import SHORT_PROMPT, Queue
from .sampling_loop import Sampled, SamplingLoop
from .sampling_pool import SamplingPool
from .sizing import sampling_cores
from .threads import Threads
from .tree import Demand
from .types import (
    EngineClosed,
    EngineError,
    EngineOptions,
    FinishReason,
    NativeError,
    Priority,
)
from .verbs import ENDING, INTERRUPTING, STARTING

REST_SECONDS = 0.25
"""Seconds without work before idle work begins on a device, where a copy or a decode is not broken off: the
next of several requests in a row comes sooner."""


@dataclass(slots=True)
class Counters:
    """Counts of what ``llama_decode`` was given, and the seconds that it took."""

    prompt_rows: int = 0
    branch_rows: int = 0
    decodes: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0


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
        self.decoder = Decoder(context, cache, share=not model.recurrent)
        self._threads_now = 0
        self.budget = ChunkBudget(options.step_seconds, context.max_rows)
        self.abortable = abortable
        self.threads, self._prompt_threads = threads, options.threads_batch
        self.inbox: deque[Command] = deque()
        self.counters = Counters()
        self._in_flight: frozenset[int] = frozenset()
        self._ahead_in_flight = False
        self.overlaps = False  # whether decodes return before they are computed
        self._idle_work_at: float | None = None  # when idle work may begin, if it waits
        self._stopped: Mapping[Branch, FinishReason] = {}  # by commands during the last decode

    # ---- the step

    def step(self) -> bool:
        """Do one step; return False when there is nothing to do until the next command."""
        self.context.rearm()
        self.queue.step += 1
        if self.queue.steady and not self.inbox and self._write_steadily():
            return True
        self.loop.now = time.monotonic()
        if self.inbox or not self.queue.steady:
            self._prepare_step()
        plan = self._plan()
        ahead = self.queue.runs_prefetch
        if plan.rows or plan.portions:
            self._decode(plan, ahead)
        if (plan.rows or plan.portions) and not ahead:
            self.queue.last_worked = self.loop.now
        if not (self.overlaps and self.queue.steady):
            self.publish()  # else while the next step is computed
        if plan.rows or plan.portions or self.inbox or self.queue.left_waiting:
            return True
        if self.queue.writing or self.queue.reading:
            return True  # the plan was emptied by demands that ended or lost their cells; others remain
        more = self._work_while_idle()
        if not more and self.threads is not None:
            self.threads.rest()
        return more

    def _write_steadily(self) -> bool:
        """Do a step in which each branch writes one token and nothing else is done; False if there is more.

        Most steps are of this kind. It does in one go what a plan of such rows would: calls take most of the
        time of a small step outside of llama.cpp.
        """
        queue, context, window = self.queue, self.context, self.window
        writing = queue.writing
        if not self.cache.free_cells(len(writing)):
            return False
        tokens, positions, seqs = list[int](), list[int](), list[int]()
        for active in writing:
            node = active.node
            assert node is not None
            if node.end > window or len(node.demands) > 1:
                return False
            tokens.append(node.tokens[0])
            positions.append(node.end - 1)
            seqs.append(active.seq)
        context.batch.clear()
        context.batch.add_rows(tokens, positions, seqs)
        code = self._run_batch(0, len(writing), False, self._work_while_computing)
        if code != OK:
            self._give_way(Plan(writing, {}, []), code)
            return True
        self.cache.advance_rows(writing)
        self.loop.now = queue.last_worked = time.monotonic()
        if self._stopped:
            for row, active in enumerate(writing):
                self._answer_demand(active, row)
        else:
            self.loop.next_tokens(writing)
        queue.drop_ended()
        if not (self.overlaps and queue.steady):
            self.publish()  # else while the next step is computed
        return True

    def _prepare_step(self) -> None:
        """Carry out commands and choose what runs in the next step."""
        queue, cache = self.queue, self.cache
        while self.inbox:
            queue.prefetch_lacks_room = False
            self.commands.handle(self.inbox.popleft())
        written = self.loop.generated
        queue.drop_ended()
        queue.yield_slots()
        if not queue.busy and queue.has_wanted_work:
            cache.evict_finished()
        queue.admit()
        if self.loop.generated > written:
            self.publish()  # first tokens, from stored logits, do not wait for the decode
        alone = not queue.busy or queue.runs_prefetch  # nothing is evicted for a prefetch
        queue.steady = (alone or cache.evict_idle()) and queue.all_writing

    def interrupt(self, generation: Generation) -> None:
        """Abort the running decode if it is for ``generation`` and no request needs it. For any thread."""
        if self.abortable and generation.number in self._in_flight and self._is_unwanted():
            self.context.abort()

    def pause_prefetch(self) -> None:
        """Let prefetching rest for a moment from now on. For any thread."""
        self.queue.prefetch_paused_until = time.monotonic() + self.queue.prefetch_delay
        if self._ahead_in_flight:
            self.context.abort()

    def abort_prefetch(self, command: Command) -> None:
        """Abort a decode of a prefetch if ``command`` starts other work. For any thread."""
        if self._ahead_in_flight and _starts_wanted_work(command):
            self.context.abort()

    def fail_all(self, error: EngineError) -> None:
        """End every request with ``error``; the cache starts empty."""
        self.queue.fail_all(error)
        self.publish()

    # ---- planning

    def _plan(self) -> Plan:
        """Fill the next batch, for which there is room in the cells."""
        queue = self.queue
        writing, reading = self._urgent_demands()
        writing = self._end_outside_window(writing)
        for demand in reading:
            if not demand.every_token and not self.cache.catch_up(demand):
                queue.suspend(demand)
        reading = [demand for demand in reading if demand.seq >= 0]
        chunk = self.budget.size(bool(writing), self.abortable)
        while True:
            plan = self.decoder.plan(writing, reading, chunk)
            needed = len(plan.rows) + plan.prompt_rows
            if self.cache.free_cells(needed, (), queue.runs_prefetch):
                break
            free = self.context.cells - self.cache.used_cells - len(plan.rows)
            if plan.portions and free >= 1 and chunk > 1:
                chunk = min(chunk // 2, free)
            elif not queue.suspend_least():
                return Plan([], {}, [])
            else:
                writing = [r for r in writing if r.seq >= 0 and r.branch.live]
                reading = [d for d in reading if d.seq >= 0]
        if len(queue.reading) > 1:
            queue.reading.rotate(-1)  # the next chunk begins with another demand
        return plan

    def _urgent_demands(self) -> tuple[Sequence[ActiveBranch], Sequence[Demand]]:
        """Return the writing branches and the reading demands, the most urgent first.

        Background requests pause while there is other work. Of equally urgent prompts the shortest comes
        first, up to ``SHORT_PROMPT`` tokens: a short one would wait long behind a long one. In every fourth
        step the order is that of arrival.
        """
        queue = self.queue
        reading: Sequence[Demand] = ()
        if queue.reading:
            reading = sorted(queue.reading, key=lambda demand: demand.urgency)
            if len(reading) > 1 and queue.step % 4:
                reading.sort(key=lambda d: (d.urgency, min(queue.tokens_left(d), SHORT_PROMPT + 1)))
        if all(r.asked.priority is not Priority.BACKGROUND for r in queue.requests):
            return queue.writing, reading
        writing = [r for r in queue.writing if r.urgency is not Priority.BACKGROUND]
        urgent = [d for d in reading if d.urgency is not Priority.BACKGROUND]
        return (writing, urgent) if writing or urgent else (queue.writing, reading)

    def _end_outside_window(self, writing: Sequence[ActiveBranch]) -> Sequence[ActiveBranch]:
        """Return the branches whose next position is inside the window; shift or end the others."""
        full = [r for r in writing if r.node is not None and r.node.end > self.window]
        if not full:
            return writing
        for active in full:
            if active.shift(self.window):
                self.queue.requeue(active)
            else:
                self.loop.finish(active, FinishReason.CONTEXT, None)
        self.queue.drop_ended()
        return [r for r in writing if r.seq >= 0 and r.branch.live]

    # ---- decoding

    def _decode(self, plan: Plan, ahead: bool = False) -> None:
        if self.abortable and ahead:
            self._ahead_in_flight = True
            if any(map(_starts_wanted_work, list(self.inbox))):
                self._ahead_in_flight = False
                return
        if self.abortable and plan.portions:
            self._in_flight = frozenset(
                demand.request.generation.number
                for demand in plan.demands()
                if isinstance(demand, ActiveBranch | ScoringDemand)
            )
            if self._is_unwanted():  # the command came before _in_flight was set, and could not abort
                self._in_flight, self._ahead_in_flight = frozenset(), False
                return
        code = self._run_batch(
            plan.prompt_rows, len(plan.rows), bool(plan.portions), self._work_while_computing
        )
        self._in_flight, self._ahead_in_flight = frozenset(), False
        if code != OK:
            self._give_way(plan, code)
        else:
            self.decoder.record(plan)
            self._apply_results(plan)

    def _give_way(self, plan: Plan, code: int) -> None:
        """Make room after a decode that failed for lack of it; forget one that was aborted."""
        if code == ABORTED:
            self.decoder.roll_back(plan)
        elif self.queue.busy and not self.queue.suspend_least():
            raise NativeError("llama_decode", "no free cell, though none should be needed")

    def _work_while_computing(self) -> None:
        """Publish events, and look for commands that end branches, while an accelerator computes the step."""
        if self.overlaps:
            self._publish_events()
        self._stopped = self._find_ended() if self.inbox else {}

    def _find_ended(self) -> Mapping[Branch, FinishReason]:
        """Return the branches that the first commands in the inbox end, up to the first other command."""
        ended: dict[Branch, FinishReason] = {}
        for command in list(self.inbox):
            reason = ENDING.get(command.verb)
            if reason is None:
                break
            branches = command.generation.branches
            for branch in branches if command.branch < 0 else branches[command.branch : command.branch + 1]:
                ended.setdefault(branch, reason)
        return ended

    def _is_unwanted(self) -> bool:
        """Whether every row in the decode belongs to a branch that is to end: an abort discards all rows."""
        left: dict[int, set[int]] = {}  # branches of a request that no command ends
        for command in list(self.inbox):
            if command.verb in INTERRUPTING:
                generation = command.generation
                live = left.setdefault(generation.number, {b.index for b in generation.branches if b.live})
                live -= {command.branch} if command.branch >= 0 else live.copy()
        return all(number in left and not left[number] for number in self._in_flight)

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
            plan = self.decoder.plan((), demands, chunk)
            if self.cache.free_cells(plan.prompt_rows):
                try:
                    code = self._run_batch(plan.prompt_rows, 0, plan.prompt_rows > self.context.sequences)
                    if code == OK:
                        self.decoder.record(plan)
                except BaseException as error:  # the native memory may be in any state
                    known = isinstance(error, EngineError)
                    self.fail_all(error if known else NativeError("llama_decode", repr(error)))
                    raise
                if code == OK:
                    return plan.portions
                if code == ABORTED:
                    self.decoder.roll_back(plan)
                    raise EngineClosed("the engine was closed")
            chunk = min(chunk, plan.prompt_rows) // 2
        return ()

    def _run_batch(
        self, prompt_rows: int, branch_rows: int, prompt: bool, meanwhile: Callable[[], None] = lambda: None
    ) -> int:
        """Decode the batch of so many rows, count it, and return llama.cpp's code.

        ``prompt``: use the threads for prompts.
        """
        self._set_threads(prompt)
        started = time.perf_counter()
        code = self.context.decode(meanwhile)
        seconds = time.perf_counter() - started
        if code == OK:
            self.cache.tree.beside = prompt_rows + branch_rows > 1
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

    def _set_threads(self, prompt: bool) -> None:
        """Set the threads of the next step, fewer while other programs use some of the cores."""
        if self.threads is None:
            return
        now = self.loop.pool.cores = self.threads.count()
        if prompt:
            now = self._prompt_threads or now
        if now != self._threads_now:
            self.context.set_threads(now, now)
            self._threads_now = now

    def _apply_results(self, plan: Plan) -> None:
        self.loop.now = time.monotonic()
        rows = [(demand, row) for row, demand in enumerate(plan.rows)]
        rows += [(demand, row) for row, others in plan.shared.items() for demand in others]
        writing = [
            (row, demand)
            for demand, row in rows
            if isinstance(demand, ActiveBranch) and not demand.prompting
            if demand.branch not in self._stopped
        ]
        drawn = self.loop.draw_together(writing)
        for demand, row in rows:
            self._answer_demand(demand, row, drawn.get(demand))
        for portion in plan.portions:
            if portion.demand.seq >= 0:
                self._advance_portion(portion)
        self.queue.drop_ended()

    def _answer_demand(self, demand: Demand, row: int, drawn: Sampled | None = None) -> None:
        """Give a demand its logits, from a row of the last decode, of which a token may be drawn already."""
        if demand.seq < 0:
            return  # an error in a callback may have ended its whole request
        node = demand.node
        assert node is not None
        if node.logits is None and len(node.demands) > 1 and any(d.seq < 0 for d in node.demands):
            self.cache.store_logits(demand.seq, self.context.logits(row))  # for the waiting demands
        if isinstance(demand, ActiveBranch) and not demand.prompting:
            if demand.branch in self._stopped:
                self.loop.finish(demand, self._stopped[demand.branch], row)
            else:
                self.loop.next_token(demand, row, drawn)
            return
        self.cache.store_logits(demand.seq, self.context.logits(row), isinstance(demand, ActiveBranch))
        self.cache.release(demand)
        if isinstance(demand, ActiveBranch | ScoringDemand):
            demand.request.report_next_logprobs(self.context.logits(row))
        if isinstance(demand, ActiveBranch):
            demand.prompting = False  # it waits with its siblings to be admitted
        else:
            self.queue.suspend(demand)

    def _advance_portion(self, portion: Portion) -> None:
        """Record that a portion of the path of a demand was evaluated."""
        demand, tip = portion.demand, self.cache.tree.tip[portion.demand.seq]
        if demand.every_token:
            first = len(portion.tokens) - 1
            for back in range(first, -1, -1):
                demand.on_logits(tip.end - back, self.context.logits(portion.row - back))
        if isinstance(demand, ActiveBranch | ScoringDemand):
            demand.request.report_progress(min(tip.end, len(demand.request.ids)))
        if tip is demand.node:
            self.queue.reading.remove(demand)
            if isinstance(demand, ActiveBranch) and not demand.prompting:
                self.queue.start_writing(demand)
            self._answer_demand(demand, portion.row)
        elif portion.answers:
            self.cache.store_logits(demand.seq, self.context.logits(portion.row))

    def _work_while_idle(self) -> bool:
        """Prepare for the next pick while nothing runs; return True when there may be more to do.

        It does one thing at a time, as a request may come.
        """
        self._idle_work_at = None
        if self.queue.busy:
            return False
        if self.cache.on_device and time.monotonic() < self.queue.last_worked + REST_SECONDS:
            self._idle_work_at = self.queue.last_worked + REST_SECONDS
            return False
        if self.loop.pending:
            self._evaluate_pending()
            return True
        if self.cache.archive_next_node():
            return True
        if not self.queue.requests:  # a request that waits continues from its cells
            self.cache.evict_finished()
        self.cache.write_visible_to_disk()
        return False

    def seconds_to_work(self, now: float) -> float | None:
        """Return the seconds until work that needs no command; None where that is no question of time."""
        rest = self.queue.seconds_to_prefetch(now)
        if self._idle_work_at is None:
            return rest
        idle = max(self._idle_work_at - now, 0.0)
        return idle if rest is None else min(idle, rest)

    def _evaluate_pending(self) -> None:
        """Evaluate the last tokens of ended branches, the newest first, in one batch; evict nothing used."""
        pending, rows = self.loop.pending, list[Demand]()
        while pending and len(rows) < self.context.max_outputs:
            demand = pending[-1]
            if rows and not self._has_room(demand, len(rows)):
                break  # in the next batch
            pending.pop()
            if (
                self._lacks_one_token(demand)
                and self._has_room(demand, len(rows))
                and self.cache.allocate(demand, self.queue.path_length(demand) - 1)
                and self.queue.tokens_left(demand) == 1
            ):
                rows.append(demand)
            else:
                self.queue.suspend(demand)
        if rows:
            self._decode(self.decoder.plan(rows, (), 0))
            for demand in rows:
                if demand.seq >= 0:  # the decode found no room
                    self.queue.suspend(demand)

    def _lacks_one_token(self, demand: Demand) -> bool:
        """Whether the path of a demand lacks one token, and no more."""
        node = demand.node
        if node is None or node.logits is not None:
            return False
        return self.cache.tree.longest_prefix(node).end >= node.end - 1

    def _has_room(self, demand: Demand, more: int) -> bool:
        """Whether the path of a demand fits the cells, beside ``more`` new tokens of others."""
        cache = self.cache
        assert demand.node is not None
        before = demand.node.end - 1
        missing = cache.count_missing_cells(demand, before) - 1
        if not cache.has_sequence_for(demand, before):
            return False
        if cache.used_cells + more + missing < cache.native.cells:
            return True
        # Where nothing is archived, only text that was written ahead and not used gives way.
        return cache.free_cells(missing + more + 1, unused=not cache.archive.budget)

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
            self.queue.release_request(request)
        if finished:
            self.queue.requests = [request for request in self.queue.requests if request.live]

    def _publish_events(self) -> None:
        """Publish the pending events of all requests."""
        for request in self.queue.requests:
            if request.events:
                events, request.events = request.events, []
                request.generation.publish(events)


def _starts_wanted_work(command: Command) -> bool:
    """Whether a command may start work of more than prefetch priority."""
    if command.verb not in STARTING:
        return False
    return command.generation.request.priority is not Priority.AHEAD
