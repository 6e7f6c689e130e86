"""A memory that is one state a sequence: it cannot lose its tail, so anchors are kept and forked whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineOptions, FinishReason, Request, Stop, TokenRun

from .support import (
    Reference,
    assert_same_logits,
    decoded_rows,
    drive,
    finish,
    forcing,
    runs_of,
    seeded,
    toy_model,
)
from .toy_models import make_mamba

PROMPT = "Once upon a time"
RULE = Stop(max_tokens=10, ignore_eog=True)


@pytest.fixture
def engine() -> Iterator[Engine]:
    options = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=8)
    with Engine.load(toy_model(make_mamba), options, thread=False) as loaded:
        yield loaded


def write(engine: Engine, prompt: Any = PROMPT, n: int = 4, stop: Stop = RULE, **more: Any) -> Generation:
    generation = engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(3), **more))
    finish(engine, generation)
    return generation


def test_the_model_is_recurrent(engine: Engine) -> None:
    assert engine.model.recurrent
    assert not engine.model.partial_removal


@pytest.mark.parametrize("n", [1, 2, 6])
def test_every_branch_computes_what_it_would_alone(engine: Engine, n: int) -> None:
    rng = np.random.default_rng(n)
    written = rng.integers(1, engine.info.n_vocab, (n, 10)).tolist()
    seen: dict[int, list[NDArray[np.float32]]] = {}
    generation = write(engine, n=n, logits_callback=forcing(written, seen))
    reference = Reference(engine)
    try:
        for index, ids in enumerate(written):
            fresh = reference.logits([*generation.prompt_ids, *ids[:-1]], last=10)
            for found, alone in zip(seen[index], fresh, strict=True):
                assert_same_logits(found, alone)
    finally:
        reference.close()


def test_a_prompt_is_read_once_and_a_pick_goes_on_from_its_anchor(engine: Engine) -> None:
    with decoded_rows(engine) as rows:
        first = write(engine, stop=Stop(max_tokens=1, ignore_eog=True))
    assert sum(rows) == len(first.prompt_ids)
    first = write(engine)
    with decoded_rows(engine) as rows:
        write(engine, runs_of(first.branches[2]), stop=Stop(max_tokens=1, ignore_eog=True))
    assert sum(rows) == 1
    with decoded_rows(engine) as rows:
        first.branches[0].reroll(stop=Stop(max_tokens=1))
        finish(engine, first)
    assert sum(rows) == 0


def test_what_cannot_be_cut_is_read_again_and_right(engine: Engine) -> None:
    """Rewinds, stop strings and typed text end between anchors."""
    generation = write(engine, n=2)
    branch = generation.branches[0]
    kept = branch.ids[:4]
    seen: list[NDArray[np.float32]] = []
    branch.rewind(tokens=6)
    branch.append("xyz")
    finish(engine, generation)
    assert branch.ids[:4] == kept
    path = [*generation.prompt_ids, *branch.ids]

    def keep(logits: NDArray[np.float32], _: object) -> None:
        seen.append(logits.copy())

    write(engine, (TokenRun("", tuple(path)),), n=1, stop=Stop(max_tokens=1), logits_callback=keep)
    reference = Reference(engine)
    try:
        assert_same_logits(seen[0], reference.logits(path)[0])
    finally:
        reference.close()


def test_more_branches_than_sequences_take_turns() -> None:
    options = EngineOptions(n_ctx=512, gpu_layers=0, seed=1, threads=1, max_branches=12, max_sequences=4)
    with Engine.load(toy_model(make_mamba), options, thread=False) as engine:
        requests = [engine.submit(Request(f"Tale {k}", n=6, stop=RULE, sampling=seeded(k))) for k in range(3)]
        finish(engine, *requests)
        assert [[len(b.ids) for b in g.branches] for g in requests] == [[10] * 6] * 3
        assert {b.finish_reason for g in requests for b in g.branches} == {FinishReason.LENGTH}


def test_every_verb_and_cancel(engine: Engine) -> None:
    generation = engine.submit(Request(PROMPT, n=6, stop=RULE, sampling=seeded(5)))
    drive(engine, lambda: all(len(b.ids) >= 4 for b in generation.branches))
    zero, one, two, three, four, five = generation.branches
    zero.stop()
    one.kill()
    two.reroll()
    three.pause()
    four.rewind(chars=2)
    five.append(" and")
    generation.add_branch()
    for _ in range(3):
        engine.process()
    three.resume()
    finish(engine, generation)
    assert {b.index: b.finish_reason for b in generation.branches if b.index < 2} == {
        0: FinishReason.STOPPED, 1: FinishReason.KILLED,
    }  # fmt: skip
    for branch in generation.branches[2:]:
        assert branch.finish_reason is FinishReason.LENGTH
        assert engine.detokenize(branch.ids).rstrip("\ufffd") == branch.text.rstrip("\ufffd")
    for k in range(40):
        request = engine.submit(Request(f"Tale {k}", n=1 + k % 6, stop=RULE, sampling=seeded(k)))
        for _ in range(k % 9):
            engine.process()
        if k % 3 == 0:
            request.cancel()
        finish(engine, request)
    cache = engine._cache
    assert set(cache.tree.tip) == cache.parked
    while engine.call(cache.evict):
        pass
    assert engine.stats().used_cells == engine.stats().used_sequences == 0
