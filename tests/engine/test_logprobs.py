"""Log-probabilities are those of the raw logits, whatever the samplers did to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import Request, Sampling, Stop, Take, TokenLogprob

from .support import PROMPT, Reference, exact_engine, finish, seeded

RULE = Stop(max_tokens=8, ignore_eog=True)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with exact_engine(n_ctx=1024) as loaded:
        loaded._scheduler.budget.size = lambda writing, abortable: 24  # type: ignore[method-assign]
        yield loaded


@pytest.fixture(autouse=True)
def cold(engine: Engine) -> None:
    engine.reset()


@pytest.fixture(scope="module")
def reference(engine: Engine) -> Iterator[Reference]:
    made = Reference(engine)
    yield made
    made.close()


def log_softmax(row: NDArray[np.float32]) -> NDArray[np.float64]:
    wide = row.astype(np.float64)
    return wide - wide.max() - np.log(np.exp(wide - wide.max()).sum())


def assert_matches(found: TokenLogprob, row: NDArray[np.float32], token: int, best: int) -> None:
    expected = log_softmax(row)
    assert found.id == token
    assert found.logprob == pytest.approx(expected[token], abs=1e-2)
    assert len(found.top) == best
    order = np.sort(expected)[::-1][:best]
    assert [p for _, p in found.top] == pytest.approx(order.tolist(), abs=1e-2)
    assert all(expected[t] == pytest.approx(p, abs=1e-2) for t, p in found.top)
    assert all(a[1] >= b[1] for a, b in pairwise(found.top))
    assert len({t for t, _ in found.top}) == best


def submit(engine: Engine, **fields: Any) -> Generation:
    given: dict[str, Any] = {"prompt": PROMPT, "stop": RULE, "sampling": seeded(3), **fields}
    return engine.submit(Request(**given))


@pytest.mark.parametrize(
    ("best", "sampling"),
    [
        (0, seeded(3)),
        (1, seeded(3, temperature=2.0, top_k=3)),
        (5, seeded(3, repeat_penalty=2.0, logit_bias=((300, 50.0),))),
    ],
)
def test_generated_tokens(engine: Engine, reference: Reference, best: int, sampling: Sampling) -> None:
    generation = submit(engine, n=3, logprobs=best, sampling=sampling)
    finish(engine, generation)
    for branch in generation.branches:
        rows = reference.logits([*generation.prompt_ids, *branch.ids[:-1]], last=len(branch.ids))
        assert len(branch.logprobs) == len(branch.ids) == 8
        for token, found, row in zip(branch.ids, branch.logprobs, rows, strict=True):
            assert_matches(found, row, token, best)


def assert_prompt_scored(generation: Generation, reference: Reference, best: int) -> None:
    ids = list(generation.prompt_ids)
    rows = reference.logits(ids, last=len(ids))
    assert len(generation.prompt_logprobs) == len(ids) - 1  # nothing foretells the first
    for token, found, row in zip(ids[1:], generation.prompt_logprobs, rows, strict=False):
        assert_matches(found, row, token, best)


@pytest.mark.parametrize("best", [0, 3])
def test_prompt_tokens(engine: Engine, reference: Reference, best: int) -> None:
    generation = submit(engine, prompt=PROMPT * 4, n=2, prompt_logprobs=best)
    finish(engine, generation)
    assert_prompt_scored(generation, reference, best)


def test_a_prompt_that_is_in_the_cache_is_scored_all_the_same(engine: Engine, reference: Reference) -> None:
    finish(engine, submit(engine))
    generation = submit(engine, prompt_logprobs=1)
    finish(engine, generation)
    assert_prompt_scored(generation, reference, 1)
    cells = engine.stats().used_cells
    finish(engine, submit(engine, prompt_logprobs=1))
    assert engine.stats().used_cells == cells  # cells evaluated twice are given back


def test_what_could_follow_a_prompt(engine: Engine, reference: Reference) -> None:
    asked = submit(engine, next_logprobs=4, next_ids=(7, 9, 7), stop=Stop(max_tokens=0))
    finish(engine, asked)
    row = log_softmax(reference.logits(list(asked.prompt_ids))[0])
    order = np.argsort(-row)[:4].tolist()
    assert [token for token, _ in asked.next_logprobs] == [*order, *(t for t in (7, 9) if t not in order)]
    assert [p for _, p in asked.next_logprobs] == pytest.approx(
        [row[t] for t, _ in asked.next_logprobs], abs=1e-2
    )


def test_only_certain_tokens_may_be_asked_for(engine: Engine) -> None:
    asked = submit(engine, next_ids=(3, 4), stop=Stop(max_tokens=0))
    finish(engine, asked)
    assert [token for token, _ in asked.next_logprobs] == [3, 4]


@pytest.mark.parametrize(
    ("asked", "verb"),
    [
        ({"stop": RULE}, lambda branch: branch.rewind(chars=2)),
        ({"stop": RULE, "takes": (Take(" He was glad"),)}, lambda branch: branch.extend(5)),
        ({"stop": replace(RULE, strings=("a",))}, lambda branch: branch.extend(5)),
    ],
)
def test_they_stay_beside_their_tokens_whatever_is_done(
    engine: Engine, asked: dict[str, Any], verb: Callable[[Branch], None]
) -> None:
    generation = engine.submit(Request(PROMPT, logprobs=0, sampling=seeded(3), **asked))
    finish(engine, generation)
    [branch] = generation.branches
    verb(branch)
    finish(engine, generation)
    assert branch.ids and [known.id for known in branch.logprobs] == list(branch.ids)
