"""One step of the engine: commands, admission, a decode for everyone, sampling, publishing.

Everything that changes the batch happens between decodes, on the engine thread, which never waits
for a reader. Knows no model file, no text faces and no story.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .active import ActiveBranch, Scoring
from .adapters import Turns
from .backend_sampling import BackendSampling
from .cache import Cache
from .commands import Commands
from .cores import count_cores
from .decode import ChunkBudget, Decoder, Plan, Portion
from .generation import ENDING, INTERRUPTING, STARTING, Branch, Command, Generation
from .grammar_process import GrammarProcess
from .model import Model
from .native.context import ABORTED, OK, Context
from .queue import SHORT, Queue
from .sampling_loop import SamplingLoop
from .sampling_threads import FEWEST, LARGE, SamplingThreads
from .strict import Strict
from .threads import Threads, shape
from .tree import Demand
from .types import (
    EngineError,
    EngineOptions,
    FinishReason,
    NativeError,
    Priority,
)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Counters:
    """What was handed to ``llama_decode``, and how long that took (seconds)."""

    prompt_rows: int = 0
    branch_rows: int = 0
    decodes: int = 0
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0


class Scheduler:
    """Runs requests on one context. All methods but :meth:`interrupt` belong to its thread."""

    def __init__(
        self, model: Model, context: Context, cache: Cache, options: EngineOptions, *, window: int,
        abortable: bool, threads: Threads | None, wake: Callable[[], None],
        open_alone: Callable[[int], Context], turns: Turns | None = None,
    ) -> None:  # fmt: skip
        self.context, self.cache, self.window = context, cache, window
        self.turns = turns  # of sets of adapters: a step keeps to one
        self.grammars = GrammarProcess(model, wake)
        self.loop = SamplingLoop(
            model, context, cache, self.grammars, window=window, most=options.max_branches
        )
        self.queue = Queue(
            self.loop, cache, window=window, cells=context.cells, max_branches=options.max_branches
        )
        self.commands = Commands(model, self.loop, self.queue)
        self.decoder = Decoder(context, cache, share=not model.recurrent)
        self._threads_now = 0
        self.budget = ChunkBudget(options.step_seconds, context.max_rows)
        self.backend_sampling: BackendSampling | None = None
        if options.backend_sampling:
            self._sample_in_graph(model)
        self.sampling_threads = self._threads_to_sample(model, options, threads)
        self.abortable = abortable
        self.threads, self._prompt_threads = threads, options.threads_batch
        self.inbox: deque[Command] = deque()
        self.counters = Counters()
        self._in_flight: frozenset[int] = frozenset()
        self._ahead_in_flight = False
        self.overlaps = False  # a decode comes back before it is computed, and another step follows at once
        self._stopped: Mapping[Branch, FinishReason] = {}  # by commands that came while a step was computed
        self.strict = Strict(
            self.queue, self.loop, cache, self.counters, window=window, open_context=open_alone
        )

    def _threads_to_sample(
        self, model: Model, options: EngineOptions, threads: Threads | None
    ) -> SamplingThreads | None:
        """None where one samples at least as fast."""
        given = options.sampling_threads
        most = given or options.threads or count_cores()
        if model.n_vocab < LARGE or most == 1 or self.backend_sampling is not None:
            return None
        now = (lambda: threads.now) if threads is not None and given is None else (lambda: most)
        return SamplingThreads(self.context, most, now, always=given is not None)

    def _sample_in_graph(self, model: Model) -> None:
        if not self.context.cuttable or self.context.window:
            log.warning(
                "%s: sampling stays on the processor, as its memory is recurrent or slides", model.name
            )
        else:
            self.backend_sampling = BackendSampling(self.context, self.cache)

    # ---- the step

    def step(self) -> bool:
        """Do one step; False when there is nothing to do until the next command."""
        self.context.rearm()
        self.queue.step += 1
        self.loop.now = time.monotonic()
        if self.inbox or not self.queue.steady:
            self._change()
        plan = self._plan()
        ahead = self.queue.ahead_runs
        if plan.rows or plan.portions:
            self._decode(plan, ahead)
        alone = not self.queue.steady and self.strict.step()
        if (plan.rows or plan.portions or alone) and not ahead:
            self.queue.worked_at = self.loop.now
        if not (self.overlaps and self.queue.steady):
            self.publish()  # else while the next step is computed
        if plan.rows or plan.portions or alone or self.inbox or self.queue.left_waiting:
            return True
        return self._tidy()

    def _change(self) -> None:
        """Between two steps: who runs may be others afterwards."""
        queue, cache = self.queue, self.cache
        while self.inbox:
            queue.crowded = False
            self.commands.handle(self.inbox.popleft())
        written = self.loop.generated
        self._hear()
        queue.stand_aside()
        if not queue.busy and queue.pressing:
            cache.gather()
        queue.admit()
        if self.loop.generated > written:
            self.publish()  # first tokens, from stored logits, do not wait for the decode
        alone = not queue.busy or queue.ahead_runs  # for what is written ahead nothing is moved
        queue.steady = (alone or cache.make_way()) and self.turns is None and queue.all_write

    def _hear(self) -> None:
        """Branches whose slow grammar has been asked write on."""
        for pending, answer in self.grammars.take():
            if pending.active.pending is pending:  # nobody has steered it meanwhile
                self.queue.decided(pending.active)
                self.loop.decide(pending, answer)
        self.queue.retire()

    def interrupt(self, generation: Generation) -> None:
        """From any thread: do not finish a decode first that nobody wants any more."""
        if self.abortable and generation.number in self._in_flight and self._unwanted():
            self.context.abort()

    def rest(self) -> float | None:
        """Seconds until there may be something to do all the same; None: not before the next command."""
        return self.queue.rest(time.monotonic())

    def stand_back(self) -> None:
        """From any thread: what is written ahead rests for a moment, from now on."""
        self.queue.held_back_until = time.monotonic() + self.queue.ahead_waits
        if self._ahead_in_flight:
            self.context.abort()

    def make_haste(self, command: Command) -> None:
        """From any thread: do not finish a decode first that is only ahead of what anybody wants."""
        if self._ahead_in_flight and _begins(command):
            self.context.abort()

    def fail_all(self, error: EngineError) -> None:
        """End every request; the cache starts empty."""
        self.strict.reset()
        self.queue.fail_all(error)
        self.publish()

    # ---- planning

    def _plan(self) -> Plan:
        """The next batch, for which there is room."""
        queue = self.queue
        if queue.steady:
            writing = self._inside_window(queue.writing)
            if self.cache.make_room(len(writing)):
                return self.decoder.plan(writing, (), 0)
        writing, reading = self._in_turn()
        writing = self._inside_window(writing)
        chunk = self.budget.size(bool(writing), self.abortable)
        while True:
            plan = self.decoder.plan(writing, reading, chunk)
            needed = len(plan.rows) + plan.prompt_rows
            if self.cache.make_room(needed, (), queue.ahead_runs):
                break
            free = self.context.cells - self.cache.used_cells - len(plan.rows)
            if plan.portions and free >= 1 and chunk > 1:
                chunk = min(chunk // 2, free)
            elif not queue.relieve():
                return Plan([], {}, [])
            else:
                writing = [r for r in writing if r.seq >= 0 and r.branch.live]
                reading = [d for d in reading if d.seq >= 0]
        if len(queue.reading) > 1:
            queue.reading.rotate(-1)  # the next chunk begins with someone else
        return plan

    def _in_turn(self) -> tuple[Sequence[ActiveBranch], Sequence[Demand]]:
        """What this step is for: with one set of adapters; the others wait for their turn."""
        writing, reading = self._urgent()
        if self.turns is None:
            return writing, reading
        chosen = self.turns.pick({demand.namespace.root for demand in (*writing, *reading)})
        return self.turns.of_set(writing, _root, chosen), self.turns.of_set(reading, _root, chosen)

    def _urgent(self) -> tuple[Sequence[ActiveBranch], Sequence[Demand]]:
        """Prompts by priority; background requests stand back while anyone else has something to do.

        Short ones go before long ones, which would have them wait, and of short ones the shortest: where many
        are read a little at a time, a turn is long in coming. Every fourth step it is just their turn.
        """
        queue = self.queue
        reading: Sequence[Demand] = ()
        if queue.reading:
            by_length = len(queue.reading) > 1 and queue.step % 4
            reading = sorted(queue.reading, key=self._shortest if by_length else _urgency)
        if all(r.asked.priority is not Priority.BACKGROUND for r in queue.requests):
            return queue.writing, reading
        writing = [r for r in queue.writing if r.urgency is not Priority.BACKGROUND]
        urgent = [d for d in reading if d.urgency is not Priority.BACKGROUND]
        return (writing, urgent) if writing or urgent else (queue.writing, reading)

    def _shortest(self, demand: Demand) -> tuple[Priority, int]:
        return demand.urgency, min(self.queue.left(demand), SHORT + 1)

    def _inside_window(self, writing: Sequence[ActiveBranch]) -> Sequence[ActiveBranch]:
        """Branches whose next position lies inside the window; the others end or shift here."""
        full = [r for r in writing if r.node is not None and r.node.end > self.window]
        if not full:
            return writing
        for active in full:
            if active.shift(self.window):
                self.queue.park(active)
            else:
                self.loop.finish(active, FinishReason.CONTEXT, None)
        self.queue.retire()
        return [r for r in writing if r.seq >= 0 and r.branch.live]

    # ---- decoding

    def _decode(self, plan: Plan, ahead: bool = False) -> None:
        if self.abortable and ahead:
            self._ahead_in_flight = True
            if any(map(_begins, list(self.inbox))):
                self._ahead_in_flight = False
                return
        if self.abortable and plan.portions:
            self._in_flight = frozenset(
                demand.request.generation.number
                for demand in plan.demands()
                if isinstance(demand, ActiveBranch | Scoring)
            )
            if self._unwanted():  # the command came before the mark was up, when it could not interrupt
                self._in_flight, self._ahead_in_flight = frozenset(), False
                return
        rows = len(plan.rows) + plan.prompt_rows
        threads = self._use_threads(bool(plan.portions))
        padded = 0 if self.backend_sampling is None else self.backend_sampling.prepare(plan)
        started = time.perf_counter()
        code = self.context.decode(self._meanwhile)
        seconds = time.perf_counter() - started
        self._in_flight, self._ahead_in_flight = frozenset(), False
        if code == OK:
            self.count(plan, seconds)
            if padded:
                self.cache.storage.traffic.count("padding", padded)
            if self.threads is not None and threads == self.threads.now:
                self.threads.learn(shape(rows, self.cache.used_cells), seconds)
            self._settle(plan)
        elif code == ABORTED:
            self.decoder.roll_back(plan)
        elif self.queue.busy and not self.queue.relieve():  # what was not asked for can wait
            raise NativeError("llama_decode", "no free cell, though none should be needed")

    def _meanwhile(self) -> None:
        """What nobody has to wait for with an idle accelerator; and who is not to write another token."""
        if self.overlaps:
            self._tell()
        self._stopped = self._ended_meanwhile() if self.inbox else {}

    def _ended_meanwhile(self) -> Mapping[Branch, FinishReason]:
        """Branches that the first commands to come end, and no other command touches before."""
        ended: dict[Branch, FinishReason] = {}
        for command in list(self.inbox):
            reason = ENDING.get(command.verb)
            if reason is None:
                break
            branches = command.generation.branches
            for branch in branches if command.branch < 0 else branches[command.branch : command.branch + 1]:
                ended.setdefault(branch, reason)
        return ended

    def _is_stopped(self, demand: Demand) -> bool:
        return isinstance(demand, ActiveBranch) and demand.branch in self._stopped

    def _unwanted(self) -> bool:
        """Whether every row under way belongs to what is to be ended: an abort throws all of them away."""
        left: dict[int, set[int]] = {}  # branches of a request that nobody ends
        for command in list(self.inbox):
            if command.verb in INTERRUPTING:
                generation = command.generation
                live = left.setdefault(generation.number, {b.index for b in generation.branches if b.live})
                live -= {command.branch} if command.branch >= 0 else live.copy()
        return all(number in left and not left[number] for number in self._in_flight)

    def make_ready(self, root: int, rows: int) -> None:
        """The next decode has so many ``rows`` below this root of the prefix tree, and none of a request."""
        if self.backend_sampling is not None:
            self.backend_sampling.clear()
        if self.turns is not None:
            self.turns.pick({root})
        self._use_threads(rows > self.context.sequences)

    def count(self, plan: Plan, seconds: float) -> None:
        """A decode went well."""
        prompt, branches = plan.prompt_rows, len(plan.rows)
        self.budget.learn(seconds, prompt, branches)
        counters = self.counters
        counters.decodes += 1
        counters.prompt_rows += prompt
        counters.branch_rows += branches
        if prompt:
            counters.prompt_seconds += seconds
        else:
            counters.decode_seconds += seconds

    def _use_threads(self, prompt: bool) -> int:
        """Set the threads of the next step, fewer while another program wants cores; return their number."""
        if self.threads is None:
            return 0
        now = self.threads.now
        if prompt:
            now = self._prompt_threads or now
        if now != self._threads_now:
            self.context.set_threads(now, now)
            self._threads_now = now
        return now

    def _settle(self, plan: Plan) -> None:
        self.decoder.settle(plan)
        self.loop.now = time.monotonic()
        rows = [(demand, row) for row, demand in enumerate(plan.rows)]
        rows += [(demand, row) for row, others in plan.shared.items() for demand in others]
        if self.sampling_threads is not None and len(rows) >= FEWEST:
            self.loop.draw(self.sampling_threads, [r for r in rows if not self._is_stopped(r[0])])
        elif self.backend_sampling is not None:
            self.loop.drawn = self.backend_sampling.tokens(self._stopped)
            self.loop.in_graph = self.backend_sampling.seated
        for demand, row in rows:
            self._answer(demand, row)
        if self.loop.drawn:
            self.loop.drawn.clear()  # of who has ended meanwhile
        for portion in plan.portions:
            if portion.demand.seq >= 0:
                self._went_on(portion)
        self.queue.retire()

    def _answer(self, demand: Demand, row: int) -> None:
        """What a demand wanted is known: it stands in a row of the last decode."""
        if demand.seq < 0:
            return  # a callback's error may have ended its whole request
        node = demand.node
        assert node is not None
        if node.logits is None and len(node.demands) > 1 and any(d.seq < 0 for d in node.demands):
            self.cache.store_logits(demand.seq, self.context.logits(row))  # for those who wait
        if isinstance(demand, ActiveBranch) and not demand.prompting:
            if self._is_stopped(demand):
                self.loop.finish(
                    demand, self._stopped[demand.branch], row if self.context.has_logits else None
                )
            else:
                self.loop.next_token(demand, row)
            return
        self.cache.store_logits(demand.seq, self.context.logits(row), isinstance(demand, ActiveBranch))
        self.cache.release(demand)
        if isinstance(demand, ActiveBranch | Scoring):
            demand.request.foretell(self.context.logits(row))
        if isinstance(demand, ActiveBranch):
            demand.prompting = False  # it waits, with the others, to be let in from there
        else:
            self.queue.suspend(demand)

    def _went_on(self, portion: Portion) -> None:
        """A part of the way of a demand is evaluated."""
        demand, tip = portion.demand, self.cache.tree.tip[portion.demand.seq]
        if demand.every:
            first = len(portion.tokens) - 1
            for back in range(first, -1, -1):
                demand.hear(tip.end - back, self.context.logits(portion.row - back))
        if isinstance(demand, ActiveBranch | Scoring):
            demand.request.has_read(min(tip.end, len(demand.request.ids)))
        if tip is demand.node:
            self.queue.reading.remove(demand)
            if isinstance(demand, ActiveBranch) and not demand.prompting:
                self.queue.write(demand)
            self._answer(demand, portion.row)
        elif portion.answers:
            self.cache.store_logits(demand.seq, self.context.logits(portion.row))

    def _tidy(self) -> bool:
        """Nothing to do: get ready for the next pick, if nobody else has come in meanwhile.

        One thing at a time, as somebody may come. True when there may be more to do.
        """
        if self.queue.busy:
            return False
        if self.loop.pending:
            self._look_ahead()
            return True
        if self.cache.store_next():
            return True
        if not self.queue.requests:  # who only waits for a while goes on from its cells
            self.cache.gather()
        self.cache.write_down()
        return False

    def _look_ahead(self) -> None:
        """Evaluate what is wanted for later, the newest first, in one batch. Nothing is lost for it."""
        pending, rows = self.loop.pending, list[Demand]()
        while pending and len(rows) < self.context.max_outputs:
            demand = pending[-1]
            if rows and (
                demand.namespace.root != rows[0].namespace.root or not self._has_room(demand, len(rows))
            ):
                break  # in the next batch
            pending.pop()
            if (
                self._is_open(demand)
                and self._has_room(demand, len(rows))
                and self.cache.lease(demand, self.queue.end(demand) - 1)
                and self.queue.left(demand) == 1
            ):
                rows.append(demand)
            else:
                self.queue.suspend(demand)
        if rows:
            if self.turns is not None:
                self.turns.pick({rows[0].namespace.root})
            self._decode(self.decoder.plan(rows, (), 0))
            for demand in rows:
                if demand.seq >= 0:  # there was no room after all
                    self.queue.suspend(demand)

    def _is_open(self, demand: Demand) -> bool:
        """Whether one token is missing, and no more."""
        node = demand.node
        return node is not None and node.logits is None and self.cache.standing(node).end >= node.end - 1

    def _has_room(self, demand: Demand, more: int) -> bool:
        """Whether the cells, beside ``more`` new tokens of others, take the path of a demand."""
        cache = self.cache
        assert demand.node is not None
        before = demand.node.end - 1
        missing = cache.lacks(demand, before) - 1
        if not cache.has_id_for(demand, before):
            return False
        if cache.used_cells + more + missing < cache.memory.cells:
            return True
        return bool(cache.storage.budget) and cache.make_room(missing + more + 1)

    # ---- publishing

    def publish(self) -> None:
        """Give every reader what this step brought, and let finished requests go."""
        if self.queue.steady:
            self._tell()
            return
        finished = [request for request in self.queue.requests if not request.live]
        for request in finished:
            if request.generation.error is None and not request.failed:
                request.events.append(request.completed())
        self._tell()
        for request in finished:
            self.queue.forget(request)
        if finished:
            self.queue.requests = [request for request in self.queue.requests if request.live]

    def _tell(self) -> None:
        """Give every reader what there is for them."""
        for request in self.queue.requests:
            if request.events:
                events, request.events = request.events, []
                request.generation.publish(events)


def _begins(command: Command) -> bool:
    """Whether a command may give the engine something to do that somebody wants now."""
    if command.verb not in STARTING:
        return False
    return command.generation.request.priority is not Priority.AHEAD


def _urgency(demand: Demand) -> Priority:
    return demand.urgency


def _root(demand: Demand) -> int:
    return demand.namespace.root
