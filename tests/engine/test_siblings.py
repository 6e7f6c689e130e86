"""Branches that are drawn together: they differ, and each draw follows the law that it is said to follow."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srbwriter.demo import bundled_model
from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Request, Sampling, Stop
from tests.fakes.shared_model import load_engine

from .support import PROMPT, SMALL, finish

TOP = 10
SAMPLING = Sampling(temperature=1.3, top_k=TOP, top_p=1.0, min_p=0.0, seed=1)
SEEDS = 160
N = 4


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with load_engine(bundled_model(), SMALL, thread=False) as loaded:  # to which no word is too likely
        yield loaded


def write(engine: Engine, kind: str, seed: int = 1, tokens: int = 1, n: int = N, **more: Any) -> Generation:
    fields: dict[str, Any] = {
        "sampling": replace(SAMPLING, seed=seed), "stop": Stop(max_tokens=tokens, ignore_eog=True),
        "siblings": kind, **more,
    }  # fmt: skip
    generation = engine.submit(Request(PROMPT, n=n, **fields))
    finish(engine, generation)
    return generation


def texts(generation: Generation) -> list[tuple[int, ...]]:
    return [branch.ids for branch in generation.branches]


def law(engine: Engine, ids: list[int], sampling: Sampling = SAMPLING) -> dict[int, float]:
    """What a branch alone draws from after ``ids``: worked out from the model's own probabilities."""
    banned = tuple((token, -math.inf) for token in engine.eog)
    probe = Request(
        ids, sampling=Sampling(temperature=0), stop=Stop(max_tokens=1), logprobs=TOP + len(banned)
    )
    generation = engine.submit(probe)
    finish(engine, generation)
    best = [(t, p) for t, p in generation.branches[0].logprobs[0].top if t not in engine.eog][:TOP]
    weights = np.exp(np.array([p for _, p in best]) / sampling.temperature)
    return {token: float(w) for (token, _), w in zip(best, weights / weights.sum(), strict=True)}


def unlikely(counts: Mapping[Any, int], expected: Mapping[Any, float]) -> float:
    """Pearson's chi-square in standard deviations above its mean; infinite for what cannot happen."""
    if any(expected.get(what, 0.0) <= 0.0 for what in counts):
        return math.inf
    total = sum(counts.values())
    usual = {what: p * total for what, p in expected.items() if p * total >= 5}
    rare = total - sum(usual.values())
    pairs = [(counts.get(what, 0), e) for what, e in usual.items()]
    if rare >= 5:
        pairs.append((total - sum(counts.get(what, 0) for what in usual), rare))
    freedom = len(pairs) - 1
    chi = sum((n - e) ** 2 / e for n, e in pairs)
    return (chi - freedom) / math.sqrt(2 * freedom)


def prompt_ids(engine: Engine) -> list[int]:
    return engine.tokenize(PROMPT, add_bos=True)


# ---- the law of each branch


def test_distinct_openings_are_drawn_without_replacement(engine: Engine) -> None:
    p = law(engine, prompt_ids(engine))
    pairs = Counter[tuple[int, int]]()
    for seed in range(SEEDS):
        opened = [ids[0] for ids in texts(write(engine, "distinct", seed))]
        assert len(set(opened)) == N
        pairs[opened[0], opened[1]] += 1
    joint = {(a, b): p[a] * p[b] / (1 - p[a]) for a in p for b in p if a != b}
    assert unlikely(pairs, joint) < 5


# ---- until they part


# ---- verbs


def test_a_reroll_avoids_what_siblings_and_its_own_takes_began_with(engine: Engine) -> None:
    generation = write(engine, "distinct", tokens=3)
    taken = {ids[0] for ids in texts(generation)}
    for _ in range(TOP - N):
        generation.branches[1].reroll()
        finish(engine, generation)
        opened = generation.branches[1].ids[0]
        assert opened not in taken
        taken.add(opened)
    generation.branches[1].reroll()  # nothing new is left: any of what the filters leave
    finish(engine, generation)
    assert generation.branches[1].ids[0] in taken


# ---- beside other rules


def test_branches_under_a_grammar_differ_within_it(engine: Engine) -> None:
    sampling = replace(SAMPLING, regex=r" ?(He|She|It|They|One|The) [a-z ]+\.")
    generation = write(engine, "distinct", tokens=6, sampling=sampling)
    assert len({branch.ids for branch in generation.branches}) == N
    assert all(branch.error is None for branch in generation.branches)
    opened = {ids[0] for ids in texts(write(engine, "distinct", sampling=sampling))}
    assert len(opened) == N


@pytest.mark.parametrize("more", [{"mirostat": 2}, {"adaptive_target": 0.5}])
def test_samplers_that_steer_by_their_own_choices_draw_alone(engine: Engine, more: dict[str, Any]) -> None:
    steered = replace(SAMPLING, **more)
    assert texts(write(engine, "distinct", sampling=steered)) == texts(
        write(engine, "independent", sampling=steered)
    )
