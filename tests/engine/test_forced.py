"""Every branch of a batch computes what it would compute alone, whatever runs beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.native.context import OK, Context
from srbwriter.engine.types import EngineOptions, Request, Stop
from tests.fakes.shared_model import load_engine
from tests.sizes import some_of

from .support import PROMPT, WAIT, Reference, assert_same_logits, exact_model, forcing

LENGTH = 12


EXACT, BUNDLED = "exact", "bundled"
SETUPS = [(EXACT, "on"), (EXACT, "off"), (BUNDLED, "on")]
"""Weights and flash attention. The bundled, 8-bit weights give the same bits for any number of rows
with flash attention on; with it off, attention over eight rows or more takes another matrix kernel
whose last bit differs, and rounding to 8 bits makes that visible (see ``exact_model``)."""


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    weights, flash = request.param
    options = EngineOptions(n_ctx=2048, gpu_layers=0, seed=1, threads=1, flash_attn=flash)
    if weights == EXACT:
        # In a 16-bit cache, which kernel llama.cpp takes for eight rows decides what is rounded to 16 bits
        # (it differs between processors): 0.012 in a logit on one of them.
        options = replace(options, cache_type_k="f32", cache_type_v="f32")
    with load_engine(exact_model() if weights == EXACT else bundled_model(), options) as loaded:
        yield loaded


def scripts(engine: Engine, n: int, pairs: bool) -> list[list[int]]:
    """n different token sequences; with ``pairs``, half of them share their beginnings."""
    rng = np.random.default_rng(n)
    drawn = rng.integers(300, engine.info.n_vocab, (n, LENGTH)).tolist()
    for index in range(1, n // 2, 2):
        if pairs:
            drawn[index][: LENGTH // 2] = drawn[index - 1][: LENGTH // 2]
    return drawn


def forced(
    engine: Engine, written: list[list[int]]
) -> tuple[list[int], dict[int, list[NDArray[np.float32]]]]:
    """Let the branches write ``written``; the prompt's ids and the logits that each branch saw."""
    seen: dict[int, list[NDArray[np.float32]]] = {}
    generation = engine.submit(
        Request(
            PROMPT,
            n=len(written),
            stop=Stop(max_tokens=LENGTH, ignore_eog=True),
            logits_callback=forcing(written, seen),
        )
    ).wait(WAIT)
    assert [list(b.ids) for b in generation.branches] == written
    assert all(len(rows) == LENGTH for rows in seen.values())
    return list(generation.prompt_ids), seen


def bare_loop(engine: Engine, prompt: list[int], written: list[list[int]]) -> list[list[NDArray[np.float32]]]:
    """The same rows through the C API alone."""
    n = len(written)
    context = Context(
        engine.model.pointer,
        cells=1024,
        sequences=n,
        batch=512,
        ubatch=512,
        threads=1,
        threads_batch=1,
        options=engine.options,
        path="bare loop",
    )
    try:
        row = context.batch.add_run(prompt, 0, 0, 1)
        assert context.decode() == OK
        rows = [[context.logits(row).copy()] for _ in written]
        for seq in range(1, n):
            context.copy(0, seq, 0, len(prompt))
        for step in range(LENGTH - 1):
            context.batch.clear()
            context.batch.add_rows([w[step] for w in written], [len(prompt) + step] * n, list(range(n)))
            assert context.decode() == OK
            for seq in range(n):
                rows[seq].append(context.logits(seq).copy())
        return rows
    finally:
        context.close()


@pytest.mark.parametrize("n", some_of([1, 2, 8, 16], [8]))
@pytest.mark.parametrize("engine", SETUPS, indirect=True, ids="-".join)
def test_logits_match_a_fresh_single_sequence(engine: Engine, n: int) -> None:
    written = scripts(engine, n, pairs=True)
    prompt, seen = forced(engine, written)
    most = 1e-2 if engine.options.flash_attn == "on" else 1e-4  # flash attention rounds to 16 bits itself
    with closing(Reference(engine)) as reference:
        for index, ids in enumerate(written):
            fresh = reference.logits([*prompt, *ids[:-1]], last=LENGTH)
            for found, alone in zip(seen[index], fresh, strict=True):
                assert_same_logits(found, alone, most)


@pytest.mark.parametrize("n", some_of([1, 2, 8, 16], [8]))
@pytest.mark.parametrize("engine", [(BUNDLED, "off")], indirect=True, ids="-".join)
def test_logits_match_a_bare_loop_over_the_same_rows(engine: Engine, n: int) -> None:
    written = scripts(engine, n, pairs=False)
    prompt, seen = forced(engine, written)
    for index, rows in enumerate(bare_loop(engine, prompt, written)):
        for found, bare in zip(seen[index], rows, strict=True):
            assert_same_logits(found, bare)
