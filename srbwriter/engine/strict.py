"""Requests whose text depends on nothing but themselves: one branch at a time, in a context of their own.

Sums of the same numbers in another order differ in their last bits, and once in a while another token is
drawn for it. Their order depends on what else is in the batch, where in the cache a token lies, and in which
portions a prompt was read. So a strict branch is alone in its batch and its cache; its prompt is read in
portions of a fixed length that begin where they always do, and what follows it token by token. What was
evaluated in another way is not used: such tokens are counted under the reason "strict".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .active import ActiveBranch, ActiveRequest, waiting
from .cache import Cache
from .native.context import OK, Context
from .queue import Queue
from .sampling_loop import SamplingLoop
from .tree import SHARED, common_prefix
from .types import BranchState, EngineError, FinishReason, NativeError, Priority, PromptProgress

CHUNK = 64
"""Tokens of a portion. A prompt's state can be gone on from where one ends."""
SEQ = 0  # the only sequence of the context


class _Counters(Protocol):
    prompt_rows: int
    branch_rows: int
    decodes: int
    prompt_seconds: float
    decode_seconds: float


class Strict:
    """The strict requests of a scheduler. Belongs to the engine's thread.

    Args:
        open_context: a context of ``window`` tokens, made ready for a root of the tree, opened when it is
            first needed.
    """

    def __init__(
        self, queue: Queue, loop: SamplingLoop, cache: Cache, counters: _Counters, *, window: int,
        open_context: Callable[[int], Context],
    ) -> None:  # fmt: skip
        self.queue, self.loop, self.cache = queue, loop, cache
        self.counters, self.window, self._open = counters, window, open_context
        self._context: Context | None = None
        self._namespace = SHARED
        self._runner: ActiveBranch | None = None  # the branch that is written
        self._base: list[int] = []  # its prompt
        self._held: list[int] = []  # tokens in the context
        self._after_base: NDArray[np.float32] | None = None  # logits
        self._state: NDArray[np.uint8] | None = None  # after the prompt, where the memory cannot be cut

    def step(self) -> bool:
        """Read a portion, or write a token; False when there is nothing to do."""
        active = next(self._waiting(), None)
        if active is None:
            self._runner = None
            return False
        try:
            self._go_on(active)
        except NativeError:
            raise
        except EngineError as error:
            self.loop.fail_request(active.request, error)
        return True

    def reset(self) -> None:
        """Forget everything; after an error of the context, a new one is opened."""
        context, self._context = self._context, None
        self._forget()
        if context is not None:
            context.close()

    # ---- whose turn it is

    def _waiting(self) -> Iterator[ActiveBranch]:
        """Branches that have something to write: the one that has begun, then by priority, age and place."""
        others = any(t.urgency is not Priority.BACKGROUND for t in (*self.queue.running, *self.queue.reading))
        requests = [r for r in self.queue.requests if r.asked.strict and not self.queue.too_new(r)]
        begun = self._runner
        if begun is not None and begun.urgency is Priority.AHEAD and self.queue.pressing:
            begun = None
        if begun is not None and begun.request in requests and waiting(begun) and begun.pending is None:
            requests = [begun.request]
            yield begun
        for request in sorted(requests, key=lambda r: r.order):
            if not (others and request.asked.priority >= Priority.BACKGROUND):
                yield from (r for r in request.branches if waiting(r) and r.pending is None)

    def _go_on(self, active: ActiveBranch) -> None:
        if active is not self._runner:
            self._runner = active
            self._begin(active)
        written = len(active.buffer.ids)
        if written and active.limit <= written:
            self.loop.finish(active, FinishReason.LENGTH, None)
            return
        if len(active.path) > self.window and not active.shift(self.window):
            self.loop.finish(active, FinishReason.CONTEXT, None)
            return
        path = active.path
        self._stand_on(active, path)
        if len(self._held) < len(active.base):
            self._read(active)
        elif active.limit <= 0:
            self.loop.finish(active, FinishReason.LENGTH, None)
        else:
            self._write(active, path)

    def _write(self, active: ActiveBranch, path: Sequence[int]) -> None:
        """Evaluate the next token, and draw another if it was the last."""
        if len(self._held) == len(path) and len(path) > len(active.base):
            self._go_back(len(path) - 1)
        logits, todo = self._after_base, path[len(self._held) :]
        if todo:
            logits = self._decode(todo[:1])
        if len(todo) > 1 or logits is None or not self.loop.prepare(active):
            return
        self.loop.set_state(active, BranchState.WRITING)
        self.loop.sample_from(active, logits, None)
        if active.pending is not None:
            self.queue.asking.append(active)

    # ---- where it stands

    def _begin(self, active: ActiveBranch) -> None:
        """The context gets the adapters of the branch, and its request is told what is read."""
        request = active.request
        before, self._namespace = self._namespace, request.namespace
        if self._context is None or before.root != self._namespace.root:
            self.reset()
            self._context = self._open(self._namespace.root)
        elif before.salt != self._namespace.salt:
            self._context.remove(SEQ)
            self._forget()
        self._runner = active
        if active.buffer.ids:
            self._count_again(len(active.path) - 1 - min(len(self._held), len(active.base)))
        if not request.accounted:
            request.accounted = True
            request.events.append(PromptProgress(0, len(request.ids), 0))
            self._count_again(self.cache.held(request.ids, None, request.namespace))

    def _stand_on(self, active: ActiveBranch, path: Sequence[int]) -> None:
        """Keep what the context holds of the path and was evaluated as all of it has to be."""
        common = common_prefix(self._held, path, 0, len(path))
        if self._after_base is not None and (self._base is active.base or self._base == active.base):
            if common < len(self._held):
                self._go_back(max(common, len(active.base)))
            return
        whole = min(common, len(self._base) // CHUNK * CHUNK, len(self._held))
        self._base, self._after_base, self._state = active.base, None, None
        self._go_back(min(whole, len(active.base) - 1) // CHUNK * CHUNK)

    def _go_back(self, length: int) -> None:
        """Keep the first ``length`` tokens; a memory that cannot be cut keeps the prompt, or nothing."""
        context = self._opened()
        if length == len(self._held):
            return
        if context.cuttable:
            context.remove(SEQ, length)
            del self._held[length:]
            return
        base = len(self._base)
        context.remove(SEQ)
        self._held.clear()
        if length >= base and self._state is not None:
            if context.restore(self._state, 0, base, SEQ, 0, base):
                self._held += self._base
            else:
                self._after_base = self._state = None

    def _forget(self) -> None:
        self._runner, self._base, self._after_base, self._state = None, [], None, None
        self._held.clear()

    # ---- evaluating

    def _read(self, active: ActiveBranch) -> None:
        """The next portion of the prompt."""
        base, done = active.base, len(self._held)
        self.loop.set_state(active, BranchState.PROMPT)
        logits = self._decode(base[done : done + CHUNK])
        self._tell(active.request)
        if len(self._held) == len(base):
            self._after_base = logits.copy()
            context = self._opened()
            if not context.cuttable:
                self._state = context.save(SEQ, 0, len(base))

    def _tell(self, request: ActiveRequest) -> None:
        done = min(len(self._held), len(request.ids))
        if done > request.generation.prompt_done:
            request.generation.prompt_done = done
            request.events.append(PromptProgress(done, len(request.ids), 0))

    def _decode(self, tokens: Sequence[int]) -> NDArray[np.float32]:
        """Add ``tokens``; what the model says after the last, until the next decode."""
        context, counters = self._opened(), self.counters
        context.batch.clear()
        row = context.batch.add_run(tokens, len(self._held), SEQ, 1)
        started = time.perf_counter()
        code = context.decode()
        seconds = time.perf_counter() - started
        if code != OK:
            raise NativeError("llama_decode", code)
        self._held += tokens
        counters.decodes += 1
        if len(self._held) <= len(self._base):
            counters.prompt_rows += len(tokens)
            counters.prompt_seconds += seconds
        else:
            counters.branch_rows += len(tokens)
            counters.decode_seconds += seconds
        return context.logits(row)

    def _opened(self) -> Context:
        assert self._context is not None
        return self._context

    def _count_again(self, tokens: int) -> None:
        if tokens > 0:
            self.cache.storage.traffic.count("strict", tokens)
