"""In a large vocabulary the branches of a step are sampled on several threads, where that is faster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.engine import Engine
from srbwriter.engine.sampling_threads import FEWEST, LARGE, SamplingThreads, Trials
from srbwriter.engine.types import EngineOptions, Request, Sampling, Stop

from .support import SMALL, drive, finish, small_engine, toy_model

pytest.importorskip("gguf")
pytestmark = pytest.mark.full

from benchmarks.models import Shape, make  # noqa: E402  (needs gguf, which only the dev extra brings)

WIDE = Shape("wide", layers=1, width=32, heads=2, kv_heads=1, ff=32, vocab=LARGE, context=512)
KINDS = (
    Sampling(seed=3), Sampling(seed=3, top_k=0, top_p=1.0), Sampling(seed=3, repeat_penalty=1.2),
    Sampling(seed=3, mirostat=2),
)  # fmt: skip


def make_wide(path: Path) -> Path:
    make(WIDE, "q8_0", path)
    return path


def wide(**more: Any) -> Engine:
    options = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, **more)
    return Engine.load(toy_model(make_wide), options, thread=False)


@pytest.fixture(scope="module")
def one() -> Iterator[Engine]:
    """Samples as always."""
    with wide(threads=1) as loaded:
        assert loaded._scheduler.sampling_threads is None
        yield loaded


@pytest.fixture(scope="module")
def several() -> Iterator[Engine]:
    with wide(threads=1, sampling_threads=3) as loaded:
        yield loaded


def write(engine: Engine, sampling: Any, n: int = 12, **rule: Any) -> list[tuple[int, ...]]:
    engine.reset()
    engine.process()
    stop = Stop(**{"max_tokens": 6, "ignore_eog": True, **rule})
    generation = engine.submit(Request("a story", n=n, sampling=sampling, stop=stop))
    finish(engine, generation)
    return [branch.ids for branch in generation.branches]


def sampled_at_once(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what threads are given."""
    threads, sizes = engine._scheduler.sampling_threads, list[int]()
    assert threads is not None
    original = threads._on_several

    def spy(chains: Sequence[Any], rows: Sequence[int], count: int) -> Sequence[int]:
        sizes.append(len(rows))
        return original(chains, rows, count)

    monkeypatch.setattr(threads, "_on_several", spy)
    return sizes


@pytest.mark.parametrize("sampling", KINDS)
@pytest.mark.full
def test_threads_choose_the_same_tokens(
    one: Engine, several: Engine, monkeypatch: pytest.MonkeyPatch, sampling: Sampling
) -> None:
    sizes = sampled_at_once(several, monkeypatch)
    assert write(several, sampling) == write(one, sampling)
    assert sizes and set(sizes) == {12}


def test_branches_that_share_a_row_choose_for_themselves(one: Engine, several: Engine) -> None:
    sampling = Sampling(seed=3, temperature=0.05)
    assert write(several, sampling) == write(one, sampling)


def test_branches_that_take_more_than_a_call_are_left_to_the_engine(
    one: Engine, several: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = tuple(Sampling(seed=k, grammar="root ::= [a-z ]*" if k == 4 else None) for k in range(12))
    sizes = sampled_at_once(several, monkeypatch)
    assert write(several, sampling) == write(one, sampling)
    assert set(sizes) == {11}


def test_few_branches_are_sampled_one_after_another(several: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = sampled_at_once(several, monkeypatch)
    write(several, KINDS[0], FEWEST - 1)
    assert sizes == []


def test_who_is_stopped_while_a_step_is_computed_draws_nothing(
    several: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = write(several, KINDS[1], max_tokens=10)
    several.reset()
    several.process()
    rule = Stop(max_tokens=10, ignore_eog=True)
    generation = several.submit(Request("a story", n=12, sampling=KINDS[1], stop=rule))
    drive(several, lambda: all(len(branch.ids) == 4 for branch in generation.branches))
    lib: Any = several._context._lib
    native = lib.llama_decode

    def stopping(*given: Any) -> Any:
        monkeypatch.setattr(lib, "llama_decode", native)
        generation.branches[5].stop()
        return native(*given)

    monkeypatch.setattr(lib, "llama_decode", stopping)
    several.process()
    assert [len(branch.ids) for branch in generation.branches] == [5] * 5 + [4] + [5] * 6
    several.process()
    generation.branches[5].extend(rule)
    finish(several, generation)
    assert [branch.ids for branch in generation.branches] == whole


def test_small_vocabularies_and_single_threads_have_nothing_to_do_with_it() -> None:
    with small_engine() as engine:
        assert engine._scheduler.sampling_threads is None
    assert SMALL.threads == 1


def test_the_threads_end_with_the_engine() -> None:
    def living() -> int:
        return sum(thread.name.startswith("srbwriter-sampling") for thread in threading.enumerate())

    before = living()
    with wide(sampling_threads=2) as engine:
        write(engine, KINDS[0])
        assert living() == before + 1
    assert living() == before


def played(one: float, several: float, steps: int, branches: int = 16) -> list[bool]:
    """Ways that are chosen where they take so many seconds a branch."""
    trials, ways = Trials(), list[bool]()
    for _ in range(steps):
        ways.append(way := trials.several(branches))
        trials.learn(way, branches, branches * (several if way else one))
    return ways


@pytest.mark.parametrize(
    ("one", "several", "share"),
    [(1e-3, 5e-4, 1.0), (1e-3, 9.5e-4, 0.0), (1e-3, 2e-3, 0.0), (1e-6, 1e-7, 0.0)],
)
def test_the_faster_way_is_taken_and_the_other_seldom_tried(one: float, several: float, share: float) -> None:
    ways = played(one, several, 2048)
    assert sum(ways) / len(ways) == pytest.approx(share, abs=0.03)
    assert not ways[0]


@given(st.floats(1e-6, 1e-2), st.floats(1e-6, 1e-2))
def test_trials_cost_little_in_the_long_run(one: float, several: float) -> None:
    ways = played(one, several, 8192)
    settled = ways[-1] if ways[-2:] == [ways[-1]] * 2 else ways[-8]
    assert settled == (16 * one >= 5e-4 and several < 0.9 * one)
    assert sum(way != settled for way in ways) < 60


def test_a_trial_is_not_given_up_for_one_slow_step() -> None:
    trials, tried = Trials(), 0
    for _ in range(100):
        way = trials.several(16)
        tried += way
        trials.learn(way, 16, 16 * ((1.5e-3 if tried == 1 else 5e-4) if way else 1e-3))
    assert trials.better


def test_a_neighbour_that_comes_is_noticed() -> None:
    trials = Trials()
    for step in range(2000):
        way = trials.several(16)
        several = 5e-4 if step < 1000 else 5e-3
        trials.learn(way, 16, 16 * (several if way else 1e-3))
    assert not trials.better
    for _ in range(9000):
        trials.learn(trials.several(16), 16, 16 * 5e-4)
    assert not trials.better  # and that both take the same time now, too
    for _ in range(9000):
        trials.learn(way := trials.several(16), 16, 16 * (2e-4 if way else 5e-4))
    assert trials.better


def test_with_one_thread_to_go_nothing_is_timed(several: Engine) -> None:
    threads = SamplingThreads(several._context, 4, lambda: 1)
    rows: list[int] = []
    threads._short = lambda chain, context, row: rows.append(row) or row
    assert list(threads.sample(range(8), range(8))) == rows == list(range(8))
    assert threads._trials._seconds == [0.0, 0.0]


def test_options_without_a_number_follow_the_threads_of_steps() -> None:
    with wide(threads=2) as engine:
        threads = engine._scheduler.sampling_threads
        assert threads is not None
        assert (threads.most, threads._now()) == (2, 2)
