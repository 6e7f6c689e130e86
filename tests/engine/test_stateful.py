"""Random lives of an engine: whatever is submitted, steered, cancelled and evicted, the cache stays true.

The caller drives the engine (``thread=False``), so that every interleaving is one that Hypothesis
chose. After every run of steps the native cache is compared with the prefix tree, and now and then
a resident path is evaluated afresh and must give the same logits. The tolerance allows for keys and
values in 16 bits, met in another order; a wrong, missing or doubled cell moves logits by units.
The toy models, whose memories have rules of their own, compute in 32 bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineOptions, FinishReason, Priority, Request, Stop, TokenRun
from tests.fakes.shared_model import load_engine

from .support import Reference, assert_same_logits, exact_model, last_position, seeded, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba

PROMPTS = (
    "Once upon a time,",
    "Once upon a time, there was a fox.",
    "The king",
    "Tom and Lily went to the park. " * 6,
    "Ben had a red ball. He was glad. " * 22,
)
WORDS = st.sampled_from(["", " and", " The rain fell.", "\n", " x", ' "Oh!"'])
SMALL: dict[str, Any] = {"n_ctx": 256, "flash_attn": "on"}
TOY: dict[str, Any] = {"n_ctx": 512, "flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}


@cache
def shared(model: Path, toy: bool) -> tuple[Engine, Reference]:
    """One small engine for all examples (each begins by resetting it); loading is not what is tested."""
    options = EngineOptions(
        gpu_layers=0, seed=3, threads=1, max_branches=6, max_sequences=10, logits_rows=5,
        **(TOY if toy else SMALL),
    )  # fmt: skip
    engine = load_engine(model, options, thread=False)
    engine._scheduler.budget.size = lambda writing, abortable: 24  # type: ignore[method-assign]
    engine._scheduler.queue.rest_seconds = 0.0  # so that nothing depends on the clock
    return engine, Reference(engine, cells=engine.n_ctx)


class EngineMachine(RuleBasedStateMachine):
    make: Callable[[Path], Path] | None = None  # makes a toy
    longest = 10_000  # letters of a prompt
    most = 5e-2  # that logits may differ

    def __init__(self) -> None:
        super().__init__()
        make = type(self).make
        model = exact_model() if make is None else toy_model(make)
        self.engine, self.reference = shared(model, make is not None)
        self.engine.reset()
        self.engine._scheduler.queue.step = 0
        self.steps(2)
        self.generations: list[Generation] = []

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.engine.process()

    def generation(self, data: st.DataObject) -> Generation:
        return data.draw(st.sampled_from(self.generations))

    def branch(self, data: st.DataObject) -> Branch:
        return data.draw(st.sampled_from(self.generation(data).branches))

    @rule(
        prompt=st.sampled_from(PROMPTS),
        n=st.integers(1, 6),
        tokens=st.integers(0, 30),
        seed=st.integers(0, 99),
        boundary=st.sampled_from([None, None, "sentence", "line"]),
        priority=st.sampled_from([Priority.NORMAL, Priority.NORMAL, Priority.BACKGROUND]),
        strings=st.sampled_from([(), (), (" the", "a t")]),
        heal=st.booleans(),
        temperature=st.sampled_from([0.0, 0.8]),
        salt=st.sampled_from(["", "", "a", "b"]),
    )
    def submit(self, prompt, n, tokens, seed, boundary, priority, strings, heal, temperature, salt) -> None:
        request = Request(
            prompt[: self.longest],
            n=n,
            sampling=seeded(seed, temperature=temperature, repeat_penalty=1.1),
            stop=Stop(max_tokens=tokens, boundary=boundary, strings=strings),
            heal=heal,
            priority=priority,
            cache_salt=salt,
        )
        self.generations.append(self.engine.submit(request))

    @precondition(lambda self: self.generations)
    @rule(data=st.data(), n=st.integers(1, 4), typed=WORDS)
    def pick(self, data: st.DataObject, n: int, typed: str) -> None:
        branch = self.branch(data)
        keep = data.draw(st.integers(0, len(branch.ids)))
        runs = (TokenRun("", branch.generation.prompt_ids), TokenRun("", branch.ids[:keep]), TokenRun(typed))
        if len(branch.generation.prompt_ids) + keep < self.engine.n_ctx * 4 // 5:
            request = Request(runs, n=n, stop=Stop(max_tokens=12), sampling=seeded(keep))
            self.generations.append(self.engine.submit(request))

    @precondition(lambda self: self.generations)
    @rule(data=st.data(), verb=st.sampled_from("stop kill pause resume extend reroll cancel".split()))
    def steer(self, data: st.DataObject, verb: str) -> None:
        if verb == "cancel":
            self.generation(data).cancel()
        elif verb == "extend":
            self.branch(data).extend(data.draw(st.integers(1, 8)))
        else:
            getattr(self.branch(data), verb)()

    @precondition(lambda self: self.generations)
    @rule(data=st.data(), unit=st.sampled_from(["tokens", "chars", "sentences"]), amount=st.integers(1, 40))
    def rewind(self, data: st.DataObject, unit: str, amount: int) -> None:
        self.branch(data).rewind(**{unit: amount})

    @precondition(lambda self: self.generations and len(self.generations[-1].branches) < 6)
    @rule()
    def add_branch(self) -> None:
        self.generations[-1].add_branch()

    @rule(count=st.integers(1, 25))
    def run(self, count: int) -> None:
        self.steps(count)

    @rule()
    def evict(self) -> None:
        self.engine.call(self.engine._cache.evict)

    @precondition(lambda self: self.generations)
    @rule(data=st.data())
    def resident_paths_hold_what_a_fresh_evaluation_gives(self, data: st.DataObject) -> None:
        cache = self.engine._cache
        place = data.draw(st.integers(0, 63))  # how many are parked depends on times
        parked = sorted(s for s in cache.idle if cache.tree.tip[s].end < self.engine.n_ctx - 6)
        if not parked:
            return
        seq = parked[place % len(parked)]
        path = cache.tree.tip[seq].token_ids()
        found: list[np.ndarray] = []

        def keep(logits: np.ndarray, _: object) -> None:
            found.append(logits.copy())

        generation = self.engine.submit(
            Request(
                path,
                stop=Stop(max_tokens=1),
                logits_callback=keep,
                add_bos=False,
                priority=Priority.NORMAL,
                sampling=seeded(1),  # its token may be evaluated, too
            )
        )
        for _ in range(400):
            self.engine.process()
            if generation.done:
                break
        if found:
            assert_same_logits(found[0], self.reference.logits(path)[0], most=self.most)

    @rule()
    def everything_ends(self) -> None:
        """Nothing is forgotten: left alone, every request that is not paused comes to its end."""
        for generation in self.generations:
            for branch in generation.branches:
                branch.resume()
        for _ in range(3000):
            self.engine.process()
            if not self.engine.busy:
                break
        for generation in self.generations:
            assert generation.done and generation.error is None
            for branch in generation.branches:
                assert branch.finish_reason is not None

    @invariant()
    def cache_and_tree_agree(self) -> None:
        cache, context = self.engine._cache, self.engine._context
        tree = cache.tree
        assert tree.cells <= cache.used_cells <= context.cells
        for seq in range(context.sequences):
            node = tree.tip.get(seq)
            assert last_position(context, seq) + 1 == (0 if node is None else node.end)
        live = [t.seq for t in (*self.engine._scheduler.queue.writing, *self.engine._scheduler.queue.reading)]
        assert len(live) == len(set(live))
        assert not set(live) & cache.idle
        assert set(tree.tip) == set(live) | cache.idle
        assert cache.used_sequences == len(tree.tip)

    @invariant()
    def branches_are_consistent(self) -> None:
        for generation in self.generations:
            for branch in generation.branches:
                buffer = branch.buffer
                assert len(buffer.ids) == len(buffer.ends)
                assert buffer.ends == sorted(buffer.ends)
                if branch.finish_reason not in (None, FinishReason.ERROR) and not branch.live:
                    text = self.engine.detokenize(branch.ids) + buffer.tail
                    assert text[branch.overlap :].rstrip("\ufffd") == branch.text.rstrip("\ufffd")

    def teardown(self) -> None:
        for generation in getattr(self, "generations", []):
            generation.cancel()
        self.steps(3)
        assert all(g.done for g in self.generations)


class SpillingMachine(EngineMachine):
    """Whatever nobody runs has left the cells before every step."""

    def steps(self, count: int) -> None:
        for _ in range(count):
            while self.engine._cache.evict():
                pass
            self.engine.process()


class ToyMachine(EngineMachine):
    longest, most = 400, 1e-2  # most letters are tokens


class SlidingMachine(ToyMachine):
    make = staticmethod(make_gemma)


class HybridMachine(ToyMachine):
    make = staticmethod(make_jamba)


class RecurrentMachine(ToyMachine):
    make = staticmethod(make_mamba)


class SpillingSlidingMachine(SlidingMachine, SpillingMachine):
    pass


class SpillingHybridMachine(HybridMachine, SpillingMachine):
    pass


TestSpillingSliding = SpillingSlidingMachine.TestCase
TestSpillingHybrid = SpillingHybridMachine.TestCase
TestRecurrent = RecurrentMachine.TestCase
TestSpillingSliding.settings = TestSpillingHybrid.settings = TestRecurrent.settings = settings(
    max_examples=4,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.target),
)
