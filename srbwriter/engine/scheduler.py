"""One step of the engine: commands, admission, a decode for everyone, sampling, publishing.

Everything that changes the batch happens between decodes, on the engine thread, which never waits
for a reader. Knows no model file, no text faces and no story.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .active import ActiveBranch, Track, Trunk, score
from .adapters import Turns
from .admission import SHORT, Admission
from .cache import Cache
from .commands import Commands
from .costs import CostTable
from .decode import ChunkBudget, Decoder, Fed, Plan
from .generation import INTERRUPTING, Command, Generation
from .grammar_process import GrammarProcess
from .model import Model
from .native.context import ABORTED, OK, Context
from .queue import Queue
from .sampling_loop import SamplingLoop
from .strict import Strict
from .tails import Tails
from .threads import Threads, shape
from .tree import SHARED
from .types import (
    BranchState,
    EngineError,
    EngineOptions,
    FinishReason,
    NativeError,
    Priority,
    PromptProgress,
)


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
        abortable: bool, threads: Threads | None, costs: CostTable | None = None, wake: Callable[[], None],
        open_alone: Callable[[int], Context], turns: Turns | None = None,
    ) -> None:  # fmt: skip
        self.context, self.cache, self.window = context, cache, window
        self.turns = turns  # of sets of adapters: a step keeps to one
        self.tails = Tails(context, cache, window, options.max_branches)
        self.grammars = GrammarProcess(model, wake)
        self.loop = SamplingLoop(model, context, cache, self.tails, self.grammars)
        self.queue = Queue(self.loop, cache)
        self.commands = Commands(model, self.loop, self.queue, window)
        self.admission = Admission(
            self.queue, self.loop, cache, self.commands, window=window, cells=context.cells,
            max_branches=options.max_branches,
        )  # fmt: skip
        self.decoder = Decoder(context, cache, share=not model.recurrent)
        self.costs = self.decoder.costs = cache.storage.costs = costs
        self._first = 0  # whose turn it is, where branches are not computed all at once
        self._threads_now = 0
        self.budget = ChunkBudget(options.step_seconds, context.max_rows)
        self.abortable = abortable
        self.threads, self._prompt_threads = threads, options.threads_batch
        self.inbox: deque[Command] = deque()
        self.counters = Counters()
        self._in_flight: frozenset[int] = frozenset()
        self.strict = Strict(
            self.queue, self.loop, self.commands, cache, self.counters, window=window,
            open_context=open_alone, too_new=self.admission.too_new,
        )  # fmt: skip

    # ---- the step

    def step(self) -> bool:
        """Do one step; False when there is nothing to do until the next command."""
        self.context.rearm()
        self.queue.step += 1
        while self.inbox:
            self.commands.handle(self.inbox.popleft())
        self.loop.now = time.monotonic()
        written = self.loop.generated
        self._hear()
        if self.queue.requests and not self.queue.busy:
            self.cache.gather()
        self.admission.admit()
        if self.loop.generated > written:
            self.publish()  # first tokens, from stored logits, do not wait for the decode
        if self.queue.busy:
            self.cache.make_way()
        plan = self._plan()
        if plan.rows or plan.fed:
            self._decode(plan)
        alone = self.strict.step()
        self.publish()
        if plan.rows or plan.fed or alone or self.inbox or self.queue.left_waiting:
            return True
        return self._tidy()

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

    def fail_all(self, error: EngineError) -> None:
        """End every request; the cache starts empty."""
        self.tails.clear()
        self.strict.reset()
        self.queue.fail_all(error)
        self.publish()

    # ---- planning

    def _plan(self) -> Plan:
        """The next batch, for which there is room."""
        queue = self.queue
        writing, feeding = self._in_turn()
        writing = self._inside_window(writing)
        if not feeding:
            writing = self._soonest(writing)
        chunk = self.budget.size(bool(writing), self.abortable)
        while True:
            plan = self.decoder.plan(writing, feeding, chunk)
            needed = len(plan.rows) + plan.prompt_rows
            if self.cache.make_room(needed):
                break
            free = self.context.cells - self.cache.used_cells - len(plan.rows)
            if plan.fed and free >= 1 and chunk > 1:
                chunk = min(chunk // 2, free)
            elif not queue.relieve():
                return Plan([], {}, [])
            else:
                writing = [r for r in writing if r.seq >= 0 and r.branch.live]
                feeding = [t for t in feeding if t in queue.feeding]
        if len(queue.feeding) > 1:
            queue.feeding.rotate(-1)  # the next chunk begins with someone else
        return plan

    def _in_turn(self) -> tuple[Sequence[ActiveBranch], Sequence[Track]]:
        """What this step is for: with one set of adapters; the others wait for their turn."""
        writing, feeding = self._urgent()
        if self.turns is None:
            return writing, feeding
        chosen = self.turns.pick({track.request.space for track in (*writing, *feeding)})
        return self.turns.of_set(writing, _space, chosen), self.turns.of_set(feeding, _space, chosen)

    def _urgent(self) -> tuple[Sequence[ActiveBranch], Sequence[Track]]:
        """Prompts by priority; background requests stand back while anyone else has something to do.

        Short ones go before long ones, which would have them wait; every fourth step it is just their turn.
        """
        queue = self.queue
        by_length = len(queue.feeding) > 1 and queue.step % 4
        feeding = sorted(queue.feeding, key=_shortest if by_length else _priority)
        if all(r.asked.priority is not Priority.BACKGROUND for r in queue.requests):
            return queue.writing, feeding
        writing = [r for r in queue.writing if _priority(r) is not Priority.BACKGROUND]
        urgent = [t for t in feeding if _priority(t) is not Priority.BACKGROUND]
        return (writing, urgent) if writing or urgent else (queue.writing, feeding)

    def _soonest(self, writing: Sequence[ActiveBranch]) -> Sequence[ActiveBranch]:
        """As many branches as are best computed at once, by turns; mostly all of them."""
        count = len(writing)
        if self.costs is None or count < 2:
            return writing
        size = max(self.costs.split(count))
        if size >= count:
            return writing
        first = self._first % count
        self._first = first + size
        return [*writing[first:], *writing[:first]][:size]

    def _inside_window(self, writing: Sequence[ActiveBranch]) -> Sequence[ActiveBranch]:
        """Branches whose next position lies inside the window; the others end or shift here."""
        tip, window = self.cache.tree.tip, self.window
        full = [r for r in writing if tip[r.seq].end >= window]
        if not full:
            return writing
        for active in full:
            if self.commands.make_window(active):
                self.queue.park(active)
            else:
                self.loop.finish(active, FinishReason.CONTEXT, None)
        self.queue.retire()
        return [r for r in writing if r.seq >= 0 and r.branch.live]

    # ---- decoding

    def _decode(self, plan: Plan) -> None:
        if self.abortable and plan.fed:
            self._in_flight = frozenset(track.request.generation.number for track in plan.tracks())
            if self._unwanted():  # the command came before the mark was up, when it could not interrupt
                self._in_flight = frozenset()
                return
        rows = len(plan.rows) + plan.prompt_rows
        padded = self.decoder.pad(plan)
        threads = self._use_threads(rows, bool(plan.fed))
        started = time.perf_counter()
        code = self.context.decode()
        seconds = time.perf_counter() - started
        self._in_flight = frozenset()
        if code == OK:
            self.count(plan, seconds)
            if padded:
                self.cache.storage.traffic.count("padding", padded)
            if self.threads is not None and threads == self.threads.now:
                self.threads.learn(shape(rows, self.cache.used_cells), seconds)
            self._settle(plan)
        elif code == ABORTED:
            self.decoder.roll_back(plan)
        elif not self.queue.relieve():
            raise NativeError("llama_decode", "no free cell, though none should be needed")

    def _unwanted(self) -> bool:
        """Whether every row under way belongs to what is to be ended: an abort throws all of them away."""
        left: dict[int, set[int]] = {}  # branches of a request that nobody ends
        for command in list(self.inbox):
            if command.verb in INTERRUPTING:
                generation = command.generation
                live = left.setdefault(generation.number, {b.index for b in generation.branches if b.live})
                live -= {command.branch} if command.branch >= 0 else live.copy()
        return all(number in left and not left[number] for number in self._in_flight)

    def make_ready(self, space: int, rows: int) -> None:
        """The next decode has so many ``rows`` of this space of the prefix tree, and none of a request."""
        if self.turns is not None:
            self.turns.pick({space})
        self._use_threads(rows, rows > self.context.sequences)

    def count(self, plan: Plan, seconds: float) -> None:
        """A decode went well."""
        prompt, branches = plan.prompt_rows, len(plan.rows)
        self.budget.learn(seconds, prompt, branches)
        self.cache.storage.token_seconds = self.budget.per_token
        counters = self.counters
        counters.decodes += 1
        counters.prompt_rows += prompt
        counters.branch_rows += branches
        if prompt:
            counters.prompt_seconds += seconds
        else:
            counters.decode_seconds += seconds

    def _use_threads(self, rows: int, prompt: bool) -> int:
        """Let the next step have the threads it is fastest with; fewer while another program wants cores."""
        if self.threads is None:
            return 0
        now = self.threads.now
        if prompt:
            now = self._prompt_threads or now
        elif self.costs is not None:
            now = min(now, self.costs.threads(rows, self.cache.used_cells // 256 * 256))
        if now != self._threads_now:
            self.context.set_threads(now, now)
            self._threads_now = now
        return now

    def _settle(self, plan: Plan) -> None:
        self.decoder.settle(plan)
        self.loop.now = time.monotonic()
        next_token = self.loop.next_token
        for row, active in enumerate(plan.rows):
            if active.seq >= 0:  # a callback's error may have ended its whole request
                next_token(active, row)
        for row, others in plan.shared.items():
            for active in others:
                if active.seq >= 0:
                    next_token(active, row)
        for fed in plan.fed:
            if fed.track.seq >= 0:
                self._fed(fed)
        self.queue.retire()

    def _fed(self, fed: Fed) -> None:
        track = fed.track
        if isinstance(track, Trunk):
            self._trunk_grew(track, fed)
        elif isinstance(track, ActiveBranch) and not track.todo:
            self.queue.feeding.remove(track)
            self.queue.writing.append(track)
            self.loop.set_state(track, BranchState.WRITING)
            self.loop.next_token(track, fed.row)

    def _trunk_grew(self, trunk: Trunk, fed: Fed) -> None:
        request = trunk.request
        if fed.scored:
            self._score_prompt(trunk, fed)
        generation = request.generation
        generation.prompt_done = len(request.ids) - len(trunk.todo)
        request.events.append(
            PromptProgress(generation.prompt_done, len(request.ids), generation.cached_tokens)
        )
        if not trunk.todo:
            self.queue.feeding.remove(trunk)
            request.trunk = None
            self.cache.store_logits(trunk.seq, self.context.logits(fed.row))
            self.cache.park(trunk.seq)

    def _score_prompt(self, trunk: Trunk, fed: Fed) -> None:
        request = trunk.request
        best = request.asked.prompt_logprobs or 0
        for row in range(fed.row - fed.size + 1, fed.row + 1):
            trunk.scored += 1
            known = len(request.generation.prompt_logprobs)
            if known < trunk.scored < len(request.ids):
                logits = self.context.logits(row)
                request.generation.prompt_logprobs.append(score(logits, request.ids[trunk.scored], best))

    def _tidy(self) -> bool:
        """Nothing to do: get ready for the next pick, if nobody else has come in meanwhile.

        One thing at a time, as somebody may come. True when there may be more to do.
        """
        if self.queue.busy:
            return False
        if not self.tails:
            if self.cache.store_next():
                return True
            self.cache.write_down()
            return False
        if self.turns is not None:
            self.turns.pick({SHARED})  # the only space whose tails are kept
        started = time.perf_counter()
        rows = self.tails.evaluate()
        if rows:
            counters = self.counters
            counters.decodes += 1
            counters.branch_rows += rows
            counters.decode_seconds += time.perf_counter() - started
        return True

    # ---- publishing

    def publish(self) -> None:
        """Give every reader what this step brought, and let finished requests go."""
        finished = False
        for request in self.queue.requests:
            if not request.live:
                finished = True
                if request.generation.error is None and not request.failed:
                    request.events.append(request.completed())
            if request.events:
                events, request.events = request.events, []
                request.generation.publish(events)
        if finished:
            for request in self.queue.requests:
                if not request.live:
                    self.queue.forget(request)
            self.queue.requests = [request for request in self.queue.requests if request.live]


def _shortest(track: Track) -> tuple[Priority, bool]:
    return track.urgency, len(track.todo) > SHORT


def _priority(track: Track) -> Priority:
    return track.urgency


def _space(track: Track) -> int:
    return track.request.space
