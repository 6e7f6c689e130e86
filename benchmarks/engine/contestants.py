"""Those who write n branches of one prompt: the engine, a bare loop over the C API, one after another.

Each writes the same number of tokens from a prompt that is in its cache already, with the same sampler
chain; only the writing is timed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Protocol

import llama_cpp as L

from srbwriter.engine import Engine
from srbwriter.engine.native.batch import Batch
from srbwriter.engine.sampling import SamplerTemplate, derive_seed
from srbwriter.engine.types import Request, Stop
from tools.demo_model.runtime import open_model

from .setting import Setting, story_ids

UBATCH = 512
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
    """One request with n branches. With ``crowd`` the cache is full of other prefixes, as after hours."""

    def __init__(self, setting: Setting, engine: Engine, crowd: bool = False) -> None:
        self.name = "engine, full cache" if crowd else "engine"
        self.setting, self.engine, self.crowd = setting, engine, crowd
        self.prompt = story_ids(engine, setting.prompt)
        if crowd:
            self._fill()

    def _fill(self) -> None:
        """Leave prefixes behind until the engine keeps no more of them."""
        used, number = -1, 0
        while (now := self.engine.stats().used_cells) > used:
            used, number = now, number + 1
            prompt = story_ids(self.engine, min(512, self.engine.n_ctx // 2), f"{number}. ")
            self.engine.submit(Request(prompt, stop=Stop(max_tokens=0))).wait()

    def write(self, n: int, seed: int) -> Score:
        engine, setting = self.engine, self.setting
        if not self.crowd:
            engine.reset()
        engine.submit(Request(self.prompt, stop=Stop(max_tokens=0))).wait()
        before = engine.stats().branch_rows
        request = Request(
            self.prompt, n=n, sampling=replace(setting.sampling, seed=seed),
            stop=Stop(max_tokens=setting.tokens, ignore_eog=True),
        )  # fmt: skip
        begun = _clocks()
        generation = engine.submit(request).wait()
        taken = _since(begun)
        tokens = sum(len(branch.ids) for branch in generation.branches)
        return Score(tokens, *taken, engine.stats().branch_rows - before)


class BareLoop:
    """The least that can be done: fill a batch, ``llama_decode``, one ``llama_sampler_sample`` a row.

    Shares the engine's weights, has a context of its own with no more sequences than are needed, makes
    its chains before the clock starts, and neither detokenises nor looks for an end.
    """

    name = "bare loop"

    def __init__(self, setting: Setting, engine: Engine, most: int) -> None:
        self.setting = setting
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

    def write(self, n: int, seed: int) -> Score:
        self._evaluate_prompt()
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

    def _evaluate_prompt(self) -> None:
        L.llama_memory_clear(self.memory, True)
        for start in range(0, len(self.prompt), UBATCH):
            self.batch.clear()
            self.batch.add_run(self.prompt[start : start + UBATCH], start, 0, 1)
            assert L.llama_decode(self.context, self.batch.take()) == 0
        L.llama_synchronize(self.context)

    def close(self) -> None:
        self.template.close()
        L.llama_free(self.context)


class OneAfterAnother:
    """llama-cpp-python's own ``Llama``, asked n times; it keeps the prompt in its cache in between.

    Its speed does not depend on n, so no more than ``most`` completions are timed.
    """

    name = "one after another"

    def __init__(self, setting: Setting, engine: Engine, most: int) -> None:
        self.setting, self.most = setting, most
        self.prompt = story_ids(engine, setting.prompt)
        self.llama = open_model(
            setting.model, n_ctx=setting.cells, n_batch=UBATCH, n_ubatch=UBATCH, n_gpu_layers=0,
            n_threads=setting.thread_count, n_threads_batch=setting.thread_count, flash_attn=setting.flash,
            no_perf=True,
        )  # fmt: skip

    def write(self, n: int, seed: int) -> Score:
        self._complete(1, seed)
        begun = _clocks()
        tokens = sum(self._complete(self.setting.tokens, seed + k) for k in range(min(n, self.most)))
        return Score(tokens, *_since(begun), tokens)

    def _complete(self, tokens: int, seed: int) -> int:
        s = self.setting.sampling
        answer = self.llama.create_completion(
            self.prompt, max_tokens=tokens, temperature=s.temperature, top_k=s.top_k, top_p=s.top_p,
            min_p=s.min_p, repeat_penalty=s.repeat_penalty, seed=seed,
        )  # fmt: skip
        assert isinstance(answer, dict)
        return answer["usage"]["completion_tokens"]

    def close(self) -> None:
        self.llama.close()
