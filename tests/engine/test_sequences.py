"""The low-level face: whatever is called in whatever order, sequences hold what a fresh evaluation gives."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    ContextOverflow,
    EngineClosed,
    EngineError,
    EngineOptions,
    InvalidRequest,
    NoRoom,
    NotANumber,
    NotSupported,
    Request,
    Sampling,
    Stop,
)
from tests.fakes.shared_model import load_engine

from .support import (
    GREEDY,
    PROMPT,
    Reference,
    assert_same_logits,
    decoded_rows,
    exact_engine,
    exact_model,
    finish,
    fixture_of,
    last_position,
    seeded,
    small_engine,
    toy_model,
)
from .toy_models import make_gemma, make_jamba, make_mamba

engine = fixture_of(lambda: exact_engine(n_ctx=512))


@pytest.fixture(autouse=True)
def nothing_left(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "engine" in request.fixturenames:
        loaded: Engine = request.getfixturevalue("engine")
        if loaded._thread is None:
            for seq in list(loaded._sequences._sequences):
                loaded._sequences.delete_seq(seq)
            loaded.reset()


def test_the_loop_writes_what_a_request_writes(engine: Engine) -> None:
    stop = Stop(max_tokens=20, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, sampling=GREEDY, stop=stop))
    finish(engine, generation)
    engine.reset()
    low = engine.sequences
    seq = low.new_seq(GREEDY)
    low.eval(seq, generation.prompt_ids)
    written: list[int] = []
    for _ in range(20):
        token = low.sample(seq)
        low.accept(seq, token)
        low.eval(seq, [token])
        written.append(token)
    assert tuple(written) == generation.branches[0].ids
    assert low.tokens(seq) == (*generation.prompt_ids, *written)


def test_a_fork_evaluates_nothing(engine: Engine) -> None:
    low = engine.sequences
    seq = low.new_seq()
    said = low.eval(seq, engine.tokenize(PROMPT))
    with decoded_rows(engine) as rows:
        forks = [low.fork(seq, Sampling(temperature=3.0), seed=np.uint32(k)) for k in range(4)]
        assert all(np.array_equal(low.logits(fork), said) for fork in forks)
        chosen = [low.sample(fork) for fork in forks]
    assert not rows and len(set(chosen)) > 1
    cells = engine.stats().used_cells
    with decoded_rows(engine) as rows:
        low.eval_many({fork: [token] for fork, token in zip(forks, chosen, strict=True)})
    assert sum(rows) == engine.stats().used_cells - cells == len(set(chosen))


def test_what_is_cached_is_not_evaluated(engine: Engine) -> None:
    ids = engine.tokenize(PROMPT)
    finish(engine, engine.submit(Request(ids, add_bos=False, stop=Stop(max_tokens=0))))
    low = engine.sequences
    seq = low.new_seq()
    with decoded_rows(engine) as rows:
        low.eval(seq, ids)
    assert not rows
    other = low.new_seq()
    low.delete_seq(seq)
    with decoded_rows(engine) as rows:
        low.eval(other, [*ids, 5])
        low.truncate(other, len(ids))
        low.eval(other, [5])
        finish(engine, engine.submit(Request([*ids, 5], add_bos=False, stop=Stop(max_tokens=1))))
    assert sum(rows) <= 3  # for what the model says after it


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda low, seq: low.eval(99, [1]), InvalidRequest),
        (lambda low, seq: low.eval("0", [1]), InvalidRequest),
        (lambda low, seq: low.eval(seq, [10**9]), InvalidRequest),
        (lambda low, seq: low.eval(seq, [-1]), InvalidRequest),
        (lambda low, seq: low.eval(low.new_seq(), []), InvalidRequest),
        (lambda low, seq: low.eval(seq, [5] * 600), ContextOverflow),
        (lambda low, seq: low.sample(low.new_seq()), InvalidRequest),
        (lambda low, seq: low.sample(seq, np.zeros(3)), InvalidRequest),
        (lambda low, seq: low.sample(seq, np.full(low.model.n_vocab, -np.inf)), InvalidRequest),
        (lambda low, seq: low.sample(seq, np.full(low.model.n_vocab, np.nan)), NotANumber),
        (lambda low, seq: low.accept(seq, -1), InvalidRequest),
        (lambda low, seq: low.truncate(seq, 99), InvalidRequest),
        (lambda low, seq: low.truncate(seq, -1), InvalidRequest),
        (lambda low, seq: low.delete_seq(99), InvalidRequest),
        (lambda low, seq: low.fork(99), InvalidRequest),
        (lambda low, seq: low.new_seq(Sampling(regex="a")), NotSupported),
        (lambda low, seq: low.new_seq(Sampling(top_p=7.0)), InvalidRequest),
        (lambda low, seq: low.new_seq("hot"), InvalidRequest),
        (lambda low, seq: low.new_seq(seed=-1), InvalidRequest),
        (lambda low, seq: [low.new_seq() for _ in range(999)], NoRoom),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_said(
    engine: Engine, call: Callable[[Any, int], Any], error: type[EngineError]
) -> None:
    low = engine.sequences
    seq = low.new_seq()
    low.eval(seq, [5, 6])
    with pytest.raises(error):
        call(low, seq)
    assert low.tokens(seq) == (5, 6)
    low.eval(seq, [7])


def test_where_there_is_no_room_it_is_said_and_nothing_is_lost(engine: Engine) -> None:
    low = engine.sequences
    first, second = low.new_seq(), low.new_seq()
    low.eval(first, range(100, 500))
    with pytest.raises(NoRoom, match="all 512 cells"):
        low.eval(second, range(500, 700))
    held = low.tokens(second)
    assert 0 < len(held) < 200 and held == tuple(range(500, 500 + len(held)))
    assert engine.stats().used_cells <= 512
    generation = engine.submit(Request("The king", stop=Stop(max_tokens=2)))
    finish(engine, generation)  # it ends in words, for want of room
    low.truncate(first, 10)
    low.eval(second, range(500 + len(held), 700))
    assert low.tokens(second) == tuple(range(500, 700))


def test_the_example_runs_as_a_script() -> None:
    script = Path(__file__).parents[2] / "examples" / "sequences.py"
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    said = [line.partition(": ")[0] for line in done.stdout.splitlines()]
    assert said[:3] == ["likeliest", "second", "second again"] and said.count("asked") == 2
    assert re.search(r"evaluated 1 of \d+ tokens", done.stdout)
    first, later = (re.search(rf"^{of}: '(.*)'$", done.stdout, re.M) for of in ("first", "later"))
    assert first is not None and later is not None and later[1].startswith(first[1])


def test_a_closed_engine_says_so() -> None:
    with small_engine() as engine:
        low = engine.sequences
        seq = low.new_seq()
        low.eval(seq, [5])
        low.sample(seq)
    for call in (lambda: low.eval(seq, [5]), low.new_seq, lambda: low.sample(seq), lambda: low.fork(seq)):
        with pytest.raises(EngineClosed):
            call()


# ---- in any order

OPTIONS: dict[str, Any] = {
    "n_ctx": 256, "gpu_layers": 0, "seed": 3, "threads": 1, "max_branches": 4, "max_sequences": 7,
    "logits_rows": 4, "host_bytes": 1 << 20,
}  # fmt: skip


@cache
def shared(make: Callable[[Path], Path] | None) -> tuple[Engine, Reference]:
    exact = {"flash_attn": "on"} if make is None else {"cache_type_k": "f32", "cache_type_v": "f32"}
    path = exact_model() if make is None else toy_model(make)
    engine = load_engine(path, EngineOptions(**OPTIONS, **exact), thread=False)
    return engine, Reference(engine, cells=256)


TOKENS = st.lists(st.integers(1, 9) | st.integers(1, 90), max_size=30)
SAMPLINGS = st.sampled_from(
    [GREEDY, seeded(1), seeded(2, repeat_penalty=1.2, dry_multiplier=0.5), seeded(3, mirostat=2),
     seeded(4, adaptive_target=0.4), seeded(5, xtc_probability=0.5)]
)  # fmt: skip


class SequencesMachine(RuleBasedStateMachine):
    make: Callable[[Path], Path] | None = None
    most = 5e-2  # that logits may differ

    def __init__(self) -> None:
        super().__init__()
        self.engine, self.reference = shared(type(self).make)
        self.engine.reset()
        self.low = self.engine.sequences
        for seq in list(self.low._sequences):
            self.low.delete_seq(seq)
        self.model: dict[int, list[int]] = {}

    def any(self, data: st.DataObject) -> int:
        return data.draw(st.sampled_from(sorted(self.model)))

    def tried(self, seq: int, new: list[int], call: Callable[[], Any]) -> Any:
        """What a call gives; if there was no room, what was evaluated is there and the rest is not."""
        try:
            found = call()
        except (NoRoom, ContextOverflow):
            before = self.model[seq]
            held = list(self.low.tokens(seq))
            assert held == (before + new)[: len(held)] and len(held) >= len(before)
            self.model[seq] = held
            return None
        self.model[seq] = self.model[seq] + new
        return found

    @rule(sampling=SAMPLINGS)
    def new(self, sampling: Sampling) -> None:
        try:
            self.model[self.low.new_seq(sampling)] = []
        except NoRoom:
            assert len(self.model) == 7

    @precondition(lambda self: self.model)
    @rule(data=st.data(), tokens=TOKENS)
    def eval(self, data: st.DataObject, tokens: list[int]) -> None:
        seq = self.any(data)
        if not tokens and not self.model[seq]:
            with pytest.raises(InvalidRequest):
                self.low.eval(seq, tokens)
            return
        row = self.tried(seq, tokens, lambda: self.low.eval(seq, tokens))
        if row is not None:
            assert_same_logits(row, self.reference.logits(self.model[seq])[0], most=self.most)

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def eval_many(self, data: st.DataObject) -> None:
        seqs = data.draw(st.lists(st.sampled_from(sorted(self.model)), min_size=1, unique=True))
        new = {seq: data.draw(TOKENS.filter(bool)) for seq in seqs}
        try:
            found = self.low.eval_many(new)
        except (NoRoom, ContextOverflow):
            for seq in seqs:
                held = list(self.low.tokens(seq))
                assert held == (self.model[seq] + new[seq])[: len(held)] and len(held) >= len(self.model[seq])
                self.model[seq] = held
            return
        for seq, tokens in new.items():
            self.model[seq] = self.model[seq] + tokens
            assert_same_logits(found[seq], self.reference.logits(self.model[seq])[0], most=self.most)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), accepts=st.booleans(), goes_on=st.booleans())
    def write(self, data: st.DataObject, accepts: bool, goes_on: bool) -> None:
        seq = self.any(data)
        if not self.model[seq]:
            with pytest.raises(InvalidRequest):
                self.low.sample(seq)
            return
        token = self.tried(seq, [], lambda: self.low.sample(seq))
        if token is None or len(self.model[seq]) > 250:
            return
        assert 0 <= token < self.engine.info.n_vocab
        if accepts:
            self.low.accept(seq, token)
        if goes_on:
            self.tried(seq, [token], lambda: self.low.eval(seq, [token]))

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        seq = self.any(data)
        try:
            self.model[self.low.fork(seq)] = list(self.model[seq])
        except NoRoom:
            assert self.engine._cache.used_sequences or len(self.model) == 7

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        seq = self.any(data)
        length = data.draw(st.integers(0, len(self.model[seq])))
        self.low.truncate(seq, length)
        self.model[seq] = self.model[seq][:length]

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        seq = self.any(data)
        self.low.delete_seq(seq)
        del self.model[seq]
        with pytest.raises(InvalidRequest):
            self.low.tokens(seq)

    @rule(tokens=TOKENS.filter(bool), n=st.integers(1, 3), steps=st.integers(1, 12))
    def request(self, tokens: list[int], n: int, steps: int) -> None:
        generation = self.engine.submit(
            Request(tokens, n=n, add_bos=False, sampling=seeded(2), stop=Stop(max_tokens=4))
        )
        for _ in range(steps):
            self.engine.process()
        if steps % 2:
            generation.cancel()
            self.engine.process()

    @rule()
    def evict(self) -> None:
        self.engine.call(self.engine._cache.evict)

    @rule(data=st.data())
    def reset(self, data: st.DataObject) -> None:
        if data.draw(st.integers(0, 9)) == 0:
            self.engine.reset()

    @invariant()
    def tokens_are_what_was_given(self) -> None:
        for seq, ids in self.model.items():
            assert list(self.low.tokens(seq)) == ids

    @invariant()
    def cache_and_context_agree(self) -> None:
        context, tree = self.engine._context, self.engine._cache.tree
        for seq in range(context.sequences):
            node = tree.tip.get(seq)
            assert last_position(context, seq) + 1 == (0 if node is None else node.end)
        assert self.engine._cache.used_cells <= context.cells


class SlidingMachine(SequencesMachine):
    make, most = staticmethod(make_gemma), 1e-2


class HybridMachine(SequencesMachine):
    make, most = staticmethod(make_jamba), 1e-2


class RecurrentMachine(SequencesMachine):
    make, most = staticmethod(make_mamba), 1e-2


TestAttention = SequencesMachine.TestCase
TestSliding = SlidingMachine.TestCase
TestHybrid = HybridMachine.TestCase
TestRecurrent = RecurrentMachine.TestCase
TestAttention.settings = TestSliding.settings = TestHybrid.settings = TestRecurrent.settings = settings(
    max_examples=4,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
