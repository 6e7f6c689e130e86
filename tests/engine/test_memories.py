"""Memories with rules of their own: layers that see a sliding window, and layers that keep one state.

A sliding model (Gemma 3) can be cut anywhere, and must not lose what is outside the window. A hybrid
one (Jamba) and a recurrent one (Mamba) are resumed at their anchors only. All are random, and compute in
32 bits throughout.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineOptions, FinishReason, Request, Stop, TokenRun
from tests.fakes.shared_model import load_engine

from .support import (
    Reference,
    assert_same_logits,
    decoded_rows,
    drive,
    finish,
    fixture_of,
    forcing,
    last_position,
    runs_of,
    seeded,
    spill,
    toy_model,
)
from .toy_models import SLIDING_WINDOW, make_gemma, make_jamba, make_mamba

PROMPT = "Once upon a time there was a fox. He was old. "
LENGTH = 2 * SLIDING_WINDOW
RULE = Stop(max_tokens=LENGTH, ignore_eog=True)
ONE = Stop(max_tokens=1, ignore_eog=True)
CHUNK = 8
SLIDING, HYBRID, RECURRENT = "sliding", "hybrid", "recurrent"
MAKERS: dict[str, Callable[[Path], Path]] = {
    SLIDING: make_gemma, HYBRID: make_jamba, RECURRENT: make_mamba
}  # fmt: skip


def load(kind: str, **more: Any) -> Engine:
    options: dict[str, Any] = {
        "n_ctx": 512, "gpu_layers": 0, "seed": 1, "threads": 1, "max_branches": 8, "flash_attn": "off",
        "cache_type_k": "f32", "cache_type_v": "f32",
    }  # fmt: skip
    engine = load_engine(toy_model(MAKERS[kind]), EngineOptions(**(options | more)), thread=False)
    engine._scheduler.budget.size = lambda writing, abortable: CHUNK  # type: ignore[method-assign]
    engine._scheduler.queue.rest_seconds = 3600.0  # idle work is done by rest()
    return engine


@pytest.fixture(params=MAKERS)
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with load(request.param) as loaded:
        yield loaded


sliding = fixture_of(lambda: load(SLIDING), "function")


@pytest.fixture
def reference(engine: Engine) -> Iterator[Reference]:
    with closing(Reference(engine, cells=512)) as made:
        yield made


def write(engine: Engine, prompt: Any = PROMPT, n: int = 4, stop: Stop = RULE, **more: Any) -> Generation:
    more.setdefault("sampling", seeded(3))
    generation = engine.submit(Request(prompt, n=n, stop=stop, add_bos=isinstance(prompt, str), **more))
    finish(engine, generation)
    return generation


def at(ids: list[int]) -> tuple[TokenRun, ...]:
    return (TokenRun("", tuple(ids)),)


def path_of(branch: Branch) -> list[int]:
    return [*branch.generation.prompt_ids, *branch.ids]


def seen_after(engine: Engine, ids: list[int]) -> NDArray[np.float32]:
    """The logits that a branch sees which goes on from ``ids``."""
    seen: dict[int, list[NDArray[np.float32]]] = {}
    write(engine, at(ids), n=1, stop=ONE, logits_callback=forcing([[1]], seen))
    return seen[0][0]


def assert_right(engine: Engine, reference: Reference, *paths: list[int]) -> None:
    for path in paths:
        assert_same_logits(seen_after(engine, path), reference.logits(path)[0])


def evict_all(engine: Engine) -> None:
    spill(engine)
    stats = engine.stats()
    assert stats.used_cells == stats.used_sequences == 0
    context = engine._context
    assert {last_position(context, seq) for seq in range(context.sequences)} == {-1}


def test_the_models_have_the_memories_they_are_made_for(engine: Engine) -> None:
    model, architecture = engine.model, engine.model.architecture
    assert (model.hybrid, model.recurrent) == (architecture == "jamba", architecture == "mamba")
    assert model.partial_removal is engine._scheduler.abortable is (architecture == "gemma3")


@pytest.mark.parametrize("n", [1, 2, 6])
def test_every_branch_computes_what_it_would_alone(engine: Engine, reference: Reference, n: int) -> None:
    rng = np.random.default_rng(n)
    written = rng.integers(1, engine.info.n_vocab, (n, LENGTH)).tolist()
    for index in range(1, n, 2):
        written[index][: LENGTH // 2] = written[index - 1][: LENGTH // 2]  # they share their rows
    seen: dict[int, list[NDArray[np.float32]]] = {}
    generation = write(engine, n=n, logits_callback=forcing(written, seen))
    for index, ids in enumerate(written):
        fresh = reference.logits([*generation.prompt_ids, *ids[:-1]], last=LENGTH)
        for found, alone in zip(seen[index], fresh, strict=True):
            assert_same_logits(found, alone)


def test_nothing_is_read_twice_that_the_memory_holds(engine: Engine, reference: Reference) -> None:
    with decoded_rows(engine) as rows:
        first = write(engine, stop=ONE)
    assert sum(rows) == len(first.prompt_ids)
    first = write(engine)
    with decoded_rows(engine) as rows:
        first.add_branch(stop=ONE)
        first.branches[0].reroll(stop=ONE)
        finish(engine, first)
    assert sum(rows) == 0
    with decoded_rows(engine) as rows:
        second = write(engine, runs_of(first.branches[2]), stop=ONE)
    assert sum(rows) == 1  # its last token
    second = write(engine, runs_of(first.branches[2]))
    with decoded_rows(engine) as rows:
        older = write(engine, at(list(first.prompt_ids)), stop=ONE)  # back to where it began
    assert sum(rows) == 0
    assert_right(engine, reference, *(path_of(b) for g in (first, second, older) for b in g.branches))


def test_a_cut_branch_goes_on_right(engine: Engine, reference: Reference) -> None:
    """Where the memory cannot be cut, what follows the prompt is read again, and no more than that."""
    cuttable = engine.model.partial_removal
    text = engine.tokenize(" He was old. The fox said no. And so on, and")
    seen: dict[int, list[NDArray[np.float32]]] = {}
    generation = write(
        engine, n=2, stop=Stop(max_tokens=len(text), ignore_eog=True), logits_callback=forcing([text], seen)
    )
    branch = generation.branches[1]
    with decoded_rows(engine) as rows:
        branch.rewind(sentences=1)
        finish(engine, generation)
    assert branch.ids == tuple(text)
    kept = len(engine.tokenize(" He was old. The fox said no."))
    assert sum(rows) == len(text) - (kept if cuttable else 1)  # the last one is not evaluated yet
    assert_right(engine, reference, path_of(branch), path_of(branch)[:-20], path_of(generation.branches[0]))


def test_a_killed_branch_gives_its_memory_back(engine: Engine) -> None:
    callback = forcing([[10], [11], [12]], {})  # nothing in common
    generation = engine.submit(Request(PROMPT, n=3, stop=RULE, logits_callback=callback))
    drive(engine, lambda: all(len(b.ids) >= 8 for b in generation.branches))
    killed, *others = generation.branches
    prompt = len(generation.prompt_ids)
    killed.kill()
    engine.process()
    assert engine.resident(path_of(killed)) == prompt
    finish(engine, generation)
    others[0].kill()
    engine.process()
    assert engine.resident(path_of(others[0])) == prompt
    assert engine.resident(path_of(others[1])) >= prompt + LENGTH - 1


def test_the_end_of_the_context(engine: Engine) -> None:
    longest = engine.n_ctx - len(engine.tokenize(PROMPT, add_bos=True)) + 1  # the last is not evaluated
    [branch] = write(engine, n=1, stop=Stop(max_tokens=longest + 8, ignore_eog=True)).branches
    assert branch.finish_reason is FinishReason.CONTEXT
    assert len(branch.ids) == longest


def test_a_full_memory_gives_way_and_stays_right(engine: Engine, reference: Reference) -> None:
    """What is read again after a cut is there twice where cells cannot be shared afterwards."""
    generation = write(engine, n=6, stop=Stop(max_tokens=70, ignore_eog=True))
    for _ in range(2):
        for branch in generation.branches:
            branch.rewind(tokens=SLIDING_WINDOW)
        finish(engine, generation)
    assert {len(b.ids) for b in generation.branches} == {70}
    assert_right(engine, reference, *(path_of(b) for b in generation.branches))
    prompt = np.random.default_rng(4).integers(1, engine.info.n_vocab, engine.n_ctx - 2).tolist()
    whole = write(engine, at(prompt), n=1, stop=ONE)
    assert whole.branches[0].finish_reason is FinishReason.LENGTH
    evict_all(engine)


@pytest.mark.parametrize("sequences", [1, 2, 3])
def test_few_sequences_are_taken_in_turn(sequences: int) -> None:
    """The last one is the prompt's own; the branch that takes it reads nothing again."""
    with load(HYBRID, max_sequences=sequences) as engine:
        stop = Stop(max_tokens=6, ignore_eog=True)
        with decoded_rows(engine) as rows:
            single = write(engine, n=1, stop=stop)
        assert sum(rows) == len(single.prompt_ids) + 5
        others = [engine.submit(Request(f"Tale {k}", n=4, stop=stop, sampling=seeded(k))) for k in range(2)]
        finish(engine, *others)
        assert [[len(b.ids) for b in g.branches] for g in others] == [[6] * 4] * 2
        with closing(Reference(engine, cells=512)) as reference:
            assert_right(engine, reference, *(path_of(b) for g in (single, *others) for b in g.branches))
        evict_all(engine)
