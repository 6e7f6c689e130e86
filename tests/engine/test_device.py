"""The cells of a GPU: nothing leaves them before work, and branches written together are not copied.

No GPU is needed: the engine takes its cells to be on one.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineOptions, Request, Stop
from tests.fakes.shared_model import load_engine

from .support import (
    Reference,
    assert_same_logits,
    decoded_rows,
    drive,
    exact_model,
    finish,
    seeded,
    short_model,
)
from .test_memories import path_of, seen_after
from .test_tiers import read, words

N, TOKENS = 4, 24


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("srbwriter.engine.sizing.has_gpu", lambda: True)


def device(model: Path | None = None, n_ctx: int = 2048) -> Engine:
    options = EngineOptions(n_ctx=n_ctx, seed=1, threads=1)
    return load_engine(model or short_model(), options, thread=False)


def ask(engine: Engine, prompt: list[int], seed: int = 1, n: int = N) -> Generation:
    stop = Stop(max_tokens=TOKENS, ignore_eog=True)
    return engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(seed), add_bos=False))


def test_requests_in_a_row_copy_nothing() -> None:
    with device(n_ctx=512) as engine:  # the cells are full with the fifth
        prompt = words(engine, 100)
        finish(engine, ask(engine, prompt))
        for seed in range(2, 7):
            generation = ask(engine, prompt, seed)
            with decoded_rows(engine) as rows:
                drive(engine, lambda generation=generation: all(b.ids for b in generation.branches))
            assert sum(rows) <= N  # first texts come from the logits of the prompt
            assert engine.stats().saved_tokens == 0
            finish(engine, generation)
        assert engine.stats().saved_tokens == 0


def test_branches_give_way_without_a_copy_and_are_read_again() -> None:
    with device(exact_model(), n_ctx=512) as engine, closing(Reference(engine)) as reference:
        prompt = words(engine, 100)
        generations = [ask(engine, prompt, seed) for seed in range(8)]
        finish(engine, *generations)
        assert engine.stats().saved_tokens <= engine.stats().prompt_rows  # what was written is not copied
        path = path_of(generations[0].branches[3])
        assert engine.resident(path) < len(path)
        assert_same_logits(seen_after(engine, path), reference.logits(path)[0], 5e-2)


def test_a_prompt_gives_way_by_copies_and_comes_back() -> None:
    with device(n_ctx=512) as engine:
        prompts = [words(engine, 300, seed) for seed in range(2)]
        for prompt in prompts:
            read(engine, prompt)
        assert engine.stats().saved_tokens > 0
        with decoded_rows(engine) as rows:
            read(engine, prompts[0])
        assert sum(rows) <= 1
        assert engine.stats().restored_tokens > 0
