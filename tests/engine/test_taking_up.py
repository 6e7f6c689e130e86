"""Sequences that lie parked on a long prompt are taken up by those who go on from it, and not forked anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.memory import REUSED_CELLS

from .support import (
    ask,
    exact_model,
    finish,
    lengths,
    long_prompt,
    rest,
    stepped,
)

LONG = REUSED_CELLS + 200


@pytest.fixture
def engine() -> Iterator[Engine]:
    exact = {"flash_attn": "off", "cache_type_k": "f32", "cache_type_v": "f32"}
    with stepped(256, exact_model(), n_ctx=4096, max_branches=8, **exact) as loaded:
        yield loaded


class Copied:
    """Cells that llama.cpp shares between sequences, by ``llama_memory_seq_cp``."""

    def __init__(self, engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cells = 0
        copy = engine._context.copy

        def spy(source: int, target: int, start: int = -1, end: int = -1) -> None:
            self.cells += end - max(start, 0)
            copy(source, target, start, end)

        monkeypatch.setattr(engine._context, "copy", spy)


def write(engine: Engine, prompt: Any, n: int = 8) -> Generation:
    generation = ask(engine, prompt, n=n, tokens=6)
    finish(engine, generation)
    rest(engine)
    return generation


def test_a_text_that_is_asked_for_again_is_not_forked_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompt = long_prompt(engine, LONG)
    first = write(engine, prompt)
    copied = Copied(engine, monkeypatch)
    second = write(engine, prompt)
    assert lengths(second) == [6] * 8
    assert [b.ids for b in second.branches] == [b.ids for b in first.branches]
    assert copied.cells < LONG


def test_branches_of_a_picked_one_copy_what_is_new(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    text = long_prompt(engine, LONG)
    write(engine, text)
    copied = Copied(engine, monkeypatch)
    rounds: list[int] = []
    for k in range(4):
        generation = write(engine, text)
        text = [*text, *generation.branches[k].ids]
        rounds.append(copied.cells)
    assert (
        max(b - a for a, b in zip(rounds, rounds[1:], strict=False)) < LONG
    )  # 8 forks would be 8 times that


def test_what_only_a_parked_sequence_holds_is_not_taken_from_it(engine: Engine) -> None:
    text = long_prompt(engine, LONG)
    engine._cache.archive.budget = 0  # nothing can be kept outside the cells
    first = write(engine, text, 4)
    second = write(engine, text, 6)
    for generation in (first, second):
        for branch in generation.branches:
            path = [*text, *branch.ids]
            assert engine.resident(path) >= len(path) - 1


def test_another_text_drops_what_lies_on_the_first(engine: Engine) -> None:
    text = long_prompt(engine, LONG)
    write(engine, text)
    write(engine, text)
    write(engine, long_prompt(engine, LONG, "Another tale. "), 8)
    cache = engine._cache
    assert cache.used_cells < 2 * LONG  # of the first text there are none, it is in host memory
    assert engine.resident(text) == len(text)
    assert cache.used_sequences <= 16


def test_short_prompts_keep_no_sequences_that_nobody_needs(engine: Engine) -> None:
    write(engine, long_prompt(engine, 100))
    write(engine, long_prompt(engine, 100))
    cache = engine._cache
    ends = [cache.tree.tip[seq] for seq in cache.idle]
    assert len(ends) == len(set(ends))
