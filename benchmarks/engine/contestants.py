"""Contestants that write n branches of one prompt: the engine, and a bare loop over the C API.

Each writes the same number of tokens from a prompt that is in its cache already, with the same sampler
chain; only the writing is timed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import llama_cpp as L

from srbwriter.engine import Engine
from srbwriter.engine.native.batch import Batch
from srbwriter.engine.sampling import SamplerTemplate
from srbwriter.engine.seeds import derive_seed

from .asking import ask, rest
from .setting import Setting, story_ids

UBATCH = 512
OTHER_SEEDS = 1000  # those of requests that are not timed
NEVER = float("-inf")


@dataclass(frozen=True, slots=True)
class Score:
    """One measurement. ``busy`` is processor time of this process, ``rows`` how many rows were handed to
    ``llama_decode``; both are 0 if unknown."""

    tokens: int
    seconds: float
    busy: float = 0.0
    rows: int = 0

    @property
    def speed(self) -> float:
        """Tokens per second, all branches together."""
        return self.tokens / self.seconds


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _since(begun: tuple[float, float]) -> tuple[float, float]:
    """Seconds by the wall and by the processor."""
    wall, busy = _clocks()
    return wall - begun[0], busy - begun[1]


class Contestant(Protocol):
    name: str

    def write(self, n: int, seed: int) -> Score: ...


class EngineContestant:
    """The second of two requests in a row, with n branches each, of a prompt that was evaluated before.

    With ``tidy`` the cache holds nothing else afterwards; without, all that was written stays.
    """

    def __init__(self, setting: Setting, engine: Engine, tidy: bool = True, name: str = "engine") -> None:
        self.name, self.setting, self.engine, self.tidy = name, setting, engine, tidy
        self.prompt = story_ids(engine, setting.prompt)

    def write(self, n: int, seed: int) -> Score:
        engine, setting = self.engine, self.setting
        previous = ask(engine, setting, self.prompt, n, setting.tokens, seed + OTHER_SEEDS).wait()
        before = engine.stats().branch_rows
        begun = _clocks()
        generation = ask(engine, setting, self.prompt, n, setting.tokens, seed).wait()
        taken = _since(begun)
        rows = engine.stats().branch_rows - before
        tokens = sum(len(branch.ids) for branch in generation.branches)
        if self.tidy:
            for branch in (*previous.branches, *generation.branches):
                branch.kill()
        rest(engine)
        return Score(tokens, *taken, rows)


class BareLoop:
    """The least that can be done: fill a batch, ``llama_decode``, one ``llama_sampler_sample`` a row.

    Shares the engine's weights, has a context of its own with no more sequences than are needed, makes
    its chains before the clock starts, and neither detokenises nor looks for an end. It runs on the engine's
    thread: with a second team of threads in the process OpenMP would let neither of them spin.
    """

    name = "bare loop"

    def __init__(self, setting: Setting, engine: Engine, most: int) -> None:
        self.setting, self.most = setting, most
        self.prompt = story_ids(engine, setting.prompt)
        banned = tuple((token, NEVER) for token in sorted(engine.model.eog))
        self.template = SamplerTemplate(replace(setting.sampling, logit_bias=banned), engine.model)
        params = L.llama_context_default_params()
        params.n_ctx, params.n_seq_max = setting.cells, most
        params.n_batch = params.n_ubatch = UBATCH
        params.n_outputs_max = most
        params.n_threads = params.n_threads_batch = setting.thread_count
        params.flash_attn_type = int(setting.flash)
        params.kv_unified, params.no_perf = True, True
        self.context = L.llama_init_from_model(engine.model.pointer, params)
        assert self.context, "no room for a second context"
        self.memory = L.llama_get_memory(self.context)
        self.batch = Batch(UBATCH, (0,), 1)
        self._on_engine_thread = partial(engine.call, timeout=None)
        self._on_engine_thread(lambda: self._evaluate(self.prompt, 0))

    def write(self, n: int, seed: int) -> Score:
        return self._on_engine_thread(lambda: self._write(n, seed))

    def _write(self, n: int, seed: int) -> Score:
        last = len(self.prompt) - 1
        for seq in range(1, self.most):
            L.llama_memory_seq_rm(self.memory, seq, -1, -1)
        L.llama_memory_seq_rm(self.memory, 0, last, -1)
        self._evaluate(self.prompt[last:], last)  # for its logits
        chains = [self.template.new(derive_seed(seed, k), ()) for k in range(n)]
        pointers = [chain.pointer for chain in chains]
        sample, decode, wait = L.llama_sampler_sample, L.llama_decode, L.llama_synchronize
        context, batch, seqs, start = self.context, self.batch, list(range(n)), len(self.prompt)
        begun = _clocks()
        for seq in seqs[1:]:
            L.llama_memory_seq_cp(self.memory, 0, seq, -1, -1)
        tokens = [sample(pointer, context, -1) for pointer in pointers]
        for position in range(start, start + self.setting.tokens - 1):
            batch.clear()
            batch.add_rows(tokens, [position] * n, seqs)
            assert decode(context, batch.take()) == 0
            wait(context)
            tokens = [sample(pointer, context, row) for row, pointer in enumerate(pointers)]
        taken = _since(begun)
        for chain in chains:
            chain.close()
        return Score(n * self.setting.tokens, *taken, n * (self.setting.tokens - 1))

    def _evaluate(self, tokens: list[int], position: int) -> None:
        for start in range(0, len(tokens), UBATCH):
            self.batch.clear()
            self.batch.add_run(tokens[start : start + UBATCH], position + start, 0, 1)
            assert L.llama_decode(self.context, self.batch.take()) == 0
        L.llama_synchronize(self.context)

    def close(self) -> None:
        self.template.close()
        L.llama_free(self.context)
