"""A branch that goes on goes on: it draws what it would have drawn, and knows what it has learnt."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch
from srbwriter.engine.sampling import Chain, SamplerTemplate
from srbwriter.engine.types import BranchView, FinishReason, Request, Sampling, Stop

from .support import PROMPT, exact_engine, finish, fixture_of, small_engine

SIDES = 8
FACES = range(300, 300 + SIDES)
OPEN = Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0)
MOST = 24.3  # the chi-squared that one in a thousand exceeds at 7 degrees of freedom


engine = fixture_of(small_engine)


exact = fixture_of(exact_engine)


def die(logits: NDArray[np.float32], view: BranchView) -> None:
    """Every token is one of eight, all alike."""
    logits[:] = -np.inf
    logits[FACES.start : FACES.stop] = 0.0


def extended(branch: Branch) -> None:
    branch.extend(1)


def _plain(sampling: Sampling) -> dict[str, Any]:
    return {name: getattr(sampling, name) for name in ("temperature", "top_k", "top_p", "min_p")}


SETTINGS = {
    "usual": {},
    "xtc": {"xtc_probability": 0.7, "xtc_threshold": 0.02},
    "mirostat": {"mirostat": 1},
    "mirostat 2": {"mirostat": 2, "mirostat_tau": 3.0},
    "adaptive": {"adaptive_target": 0.3},
    "penalties": {"repeat_penalty": 1.3, "repeat_last_n": -1},
    "dry": {"dry_multiplier": 1.0},
}
LENGTH = 16


def undisturbed(engine: Engine, sampling: Sampling) -> tuple[int, ...]:
    engine.reset()
    generation = engine.submit(
        Request(PROMPT, sampling=sampling, stop=Stop(max_tokens=LENGTH, ignore_eog=True))
    )
    finish(engine, generation)
    return generation.branches[0].ids


@pytest.mark.parametrize("settings", SETTINGS)
def test_extended_token_by_token_it_is_the_same_text(exact: Engine, settings: str) -> None:
    sampling = Sampling(temperature=1.2, seed=7, **SETTINGS[settings])
    whole = undisturbed(exact, sampling)
    exact.reset()
    generation = exact.submit(Request(PROMPT, sampling=sampling, stop=Stop(max_tokens=1, ignore_eog=True)))
    for _ in range(LENGTH - 1):
        finish(exact, generation)
        generation.branches[0].extend(1)
    finish(exact, generation)
    assert generation.branches[0].ids == whole


def test_what_was_cut_off_is_not_looked_back_at(engine: Engine) -> None:
    """A token that a stop rule took away may be written without a penalty."""
    face = FACES.start

    def always(logits: NDArray[np.float32], view: BranchView) -> None:
        logits[:] = -np.inf
        logits[[face, face + 1]] = (1.0, 0.0)

    text = engine.detokenize([face])
    sampling = Sampling(temperature=0.0, presence_penalty=5.0)
    stop = Stop(strings=(text,), max_tokens=5)
    generation = engine.submit(Request(PROMPT, sampling=sampling, stop=stop, logits_callback=always))
    finish(engine, generation)
    (branch,) = generation.branches
    assert branch.finish_reason is FinishReason.STOP and branch.ids == ()
    branch.extend(Stop(max_tokens=2))
    finish(engine, generation)
    assert branch.ids == (face, face + 1)


def test_a_new_seed_is_a_new_beginning(exact: Engine) -> None:
    """Two branches that are given the same seed at the same place go on alike."""
    exact.reset()
    generation = exact.submit(Request(PROMPT, n=2, stop=Stop(max_tokens=4), sampling=Sampling(temperature=0)))
    finish(exact, generation)
    for branch in generation.branches:
        branch.change(Sampling(temperature=1.5, seed=99))
        branch.extend(8)
    finish(exact, generation)
    first, second = generation.branches
    assert first.ids == second.ids and len(first.ids) > 4


# ---- what is kept


def chains(engine: Engine, count: int) -> list[Chain]:
    template = SamplerTemplate(Sampling(), engine.model)
    return [template.new(seed) for seed in range(count)]


# ---- seeds


@settings(max_examples=7)
@given(acts=st.lists(st.sampled_from(["add", "reroll", "rewind"]), max_size=12), data=st.data())
def test_no_two_branches_ever_have_one_seed(engine: Engine, acts: list[str], data: st.DataObject) -> None:
    stop = Stop(max_tokens=2, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, sampling=Sampling(seed=1), stop=stop))
    finish(engine, generation)
    seen = {branch.seed for branch in generation.branches}
    for number, act in enumerate(acts, 2):
        if act == "add":
            generation.add_branch()
        else:
            branch = data.draw(st.sampled_from(generation.branches))
            branch.reroll() if act == "reroll" else branch.rewind(tokens=1)
        finish(engine, generation)
        seen |= {branch.seed for branch in generation.branches}
        assert len(seen) == number


def test_seeds_that_were_asked_for_are_given(engine: Engine) -> None:
    generation = engine.submit(
        Request(PROMPT, n=2, sampling=(Sampling(seed=5), Sampling(seed=5)), stop=Stop(max_tokens=2))
    )
    finish(engine, generation)
    assert [branch.seed for branch in generation.branches] == [5, 5]
