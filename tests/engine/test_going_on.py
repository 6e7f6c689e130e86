"""A branch that goes on goes on: it draws what it would have drawn, and knows what it has learnt."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import BranchView, FinishReason, Request, Sampling, Stop

from .support import PROMPT, dictated, exact_engine, finish, fixture_of, published, small_engine

engine = fixture_of(small_engine)


exact = fixture_of(exact_engine)


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


@pytest.mark.parametrize("by_id", [False, True])
def test_what_was_cut_off_is_not_looked_back_at(engine: Engine, by_id: bool) -> None:
    """A token that a stop rule took away may be written without a penalty."""
    face = 300

    def always(logits: NDArray[np.float32], view: BranchView) -> None:
        logits[:] = -np.inf
        logits[[face, face + 1]] = (1.0, 0.0)

    text = engine.detokenize([face])
    sampling = Sampling(temperature=0.0, presence_penalty=5.0)
    stop = Stop(token_ids=(face,), max_tokens=5) if by_id else Stop(strings=(text,), max_tokens=5)
    generation = engine.submit(Request(PROMPT, sampling=sampling, stop=stop, logits_callback=always))
    finish(engine, generation)
    (branch,) = generation.branches
    assert branch.finish_reason is FinishReason.STOP and branch.ids == ()
    branch.extend(Stop(max_tokens=2))
    finish(engine, generation)
    assert branch.ids == (face, face + 1)


def test_a_character_in_which_it_ended_is_whole_when_it_goes_on(engine: Engine) -> None:
    fox, cat, ran = (engine.tokenize_continuation(text) for text in (" fox", "🐈", " ran"))
    assert len(cat) > 2
    ids = [*fox, *cat, *ran]
    generation = dictated(engine, ids, Stop(max_tokens=len(fox) + 2, ignore_eog=True))
    finish(engine, generation)
    generation.branches[0].extend(len(cat) + len(ran))
    finish(engine, generation)
    assert generation.branches[0].text == " fox🐈 ran"
    assert published(generation) == [(" fox🐈 ran", ids)]


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
