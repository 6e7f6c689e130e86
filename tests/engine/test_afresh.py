"""Requests that want nothing of the cache, and requests whose penalties look back at something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.tree import TokenTree
from srbwriter.engine.types import (
    EngineOptions,
    PromptProgress,
    Request,
    Sampling,
    Stop,
    TokenRun,
)
from tests.fakes.shared_model import load_engine

from .support import PROMPT, SHORT, decoded_rows, drive, finish, fixture_of, seeded, small_engine, toy_model
from .toy_models import make_jamba, make_mamba

engine = fixture_of(small_engine)


def asked(engine: Engine, **more: Any) -> Any:
    return engine.submit(Request(PROMPT, sampling=seeded(5), stop=SHORT, **more))


@pytest.mark.parametrize("live", [True, False], ids=["somebody writes from it", "it is parked"])
@pytest.mark.parametrize("n", [1, 4])
def test_the_whole_prompt_is_evaluated_anew(engine: Engine, live: bool, n: int) -> None:
    engine.reset()
    first = engine.submit(Request(PROMPT, stop=Stop(max_tokens=None if live else 3, ignore_eog=True)))
    drive(engine, lambda: len(first.branches[0].ids) >= 3 and (live or first.done))
    length = len(first.prompt_ids)
    with decoded_rows(engine) as rows:
        afresh = asked(engine, n=n, cache_prompt=False)
        drive(engine, lambda: afresh.done)
    assert afresh.cached_tokens == 0
    assert sum(rows) >= length + 2
    assert [e.cached for e in afresh.log if isinstance(e, PromptProgress)][0] == 0
    assert all(len(b.ids) == SHORT.max_tokens for b in afresh.branches)
    first.cancel()
    finish(engine, first)
    shared = asked(engine)
    finish(engine, shared)
    assert shared.cached_tokens == length  # what others know is still there
    again = asked(engine, cache_prompt=False)
    finish(engine, again)
    assert again.cached_tokens == 0  # nor is what such a request left


def test_branches_of_one_such_request_share_their_prompt_and_go_on_from_it(engine: Engine) -> None:
    engine.reset()
    with decoded_rows(engine) as rows:
        generation = asked(engine, n=8, cache_prompt=False)
        finish(engine, generation)
        length = len(generation.prompt_ids)
        assert sum(rows) <= length + 8 * 4
        rows.clear()
        for branch in generation.branches:
            branch.extend(2)
        generation.add_branch(1)
        finish(engine, generation)
        assert sum(rows) <= 8 * 3 + 4


def test_a_prompt_that_is_being_read_is_not_waited_for(engine: Engine) -> None:
    engine.reset()
    both = [asked(engine), asked(engine, cache_prompt=False)]
    with decoded_rows(engine) as rows:
        finish(engine, *both)
    assert sum(rows) >= 2 * len(both[0].prompt_ids)


@pytest.mark.parametrize("make", [make_mamba, make_jamba])
def test_memories_that_cannot_be_cut(make: Any) -> None:
    options = EngineOptions(n_ctx=256, gpu_layers=0, threads=1, seed=1)
    with load_engine(toy_model(make), options, thread=False) as engine:
        for reuse, cached in ((True, False), (True, True), (False, False)):
            generation = engine.submit(Request("a fox and a bird in rain", cache_prompt=reuse, stop=SHORT))
            finish(engine, generation)
            assert (generation.cached_tokens > 0) is cached


def test_nothing_is_left_of_roots_that_nobody_uses(engine: Engine) -> None:
    engine.reset()
    for _ in range(90):
        finish(engine, engine.submit(Request("A", cache_prompt=False, stop=Stop(max_tokens=1))))
    tree: TokenTree = engine._cache.tree
    assert len(tree._roots) <= 64 + engine._context.sequences
    engine.reset()
    assert tree.cells == 0 and len(tree._roots) == 1


# ---- penalties


def likeliest(engine: Engine, **more: Any) -> tuple[int, ...]:
    """What is written when every token but two is forbidden and what was seen is not written again."""

    def two(logits: Any, view: Any) -> None:
        logits[:] = -np.inf
        logits[[300, 301]] = (1.0, 0.0)

    sampling = Sampling(temperature=0.0, presence_penalty=5.0, repeat_last_n=-1)
    generation = engine.submit(
        Request([1, 300, 2], sampling=sampling, stop=Stop(max_tokens=1), logits_callback=two, **more)
    )
    finish(engine, generation)
    return generation.branches[0].ids


@pytest.mark.parametrize("empty", ["", [], ()])
def test_penalties_look_back_at_the_prompt_or_at_what_they_are_told(engine: Engine, empty: Any) -> None:
    assert likeliest(engine) == (301,)
    assert likeliest(engine, penalty_prompt=empty) == (300,)
    assert likeliest(engine, penalty_prompt=[300]) == (301,)
    assert likeliest(engine, penalty_prompt=(TokenRun("", (5, 300)),)) == (301,)
    assert likeliest(engine, penalty_prompt=engine.detokenize([300])) == (301,)
    assert likeliest(engine, penalty_prompt=[301]) == (300,)


def test_what_a_branch_wrote_is_looked_back_at_as_ever_when_it_goes_on(engine: Engine) -> None:
    def two(logits: Any, view: Any) -> None:
        logits[:] = -np.inf
        logits[[300, 301]] = (1.0, 0.0)

    sampling = Sampling(temperature=0.0, presence_penalty=5.0, repeat_last_n=-1)
    request = Request(
        PROMPT, sampling=sampling, stop=Stop(max_tokens=1), logits_callback=two, penalty_prompt=""
    )
    generation = engine.submit(request)
    finish(engine, generation)
    (branch,) = generation.branches
    branch.append(" and", go_on=True)
    finish(engine, generation)
    assert branch.ids[0] == 300 and branch.ids[-1] == 301
