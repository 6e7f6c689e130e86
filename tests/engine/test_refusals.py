"""Verbs that mean nothing are refused where they are given; ending gives back what a branch held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import (
    EngineError,
    FinishReason,
    InvalidRequest,
    LimitExceeded,
    Request,
    Sampling,
    Stop,
    Take,
)

from .support import LENGTH, PROMPT, exact_engine, finish, started


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with exact_engine() as loaded:
        yield loaded


MEANINGLESS: list[Callable[[Generation], None]] = [
    lambda g: g.branches[0].set_sampling(Sampling(top_p=7.0)),
    lambda g: g.branches[0].set_sampling(Sampling(grammar="root ::= (")),
    lambda g: g.branches[0].set_sampling(Sampling(logit_bias=((10**6, 1.0),))),
    lambda g: g.branches[0].set_sampling("greedy"),
    lambda g: g.branches[0].set_stop(Stop(strings="the")),  # type: ignore[arg-type]
    lambda g: g.branches[0].set_stop(Stop(max_tokens=-1)),
    lambda g: g.branches[0].set_sampling(Sampling(regex="\ud800")),
    lambda g: g.branches[0].set_stop(Stop(strings=("\ud800",))),
    lambda g: g.branches[0].reroll(seed=-3),
    lambda g: g.branches[0].reroll(seed=1 << 64),
    lambda g: g.branches[0].reroll(begin=("a",)),  # type: ignore[arg-type]
    lambda g: g.branches[0].rewind(tokens=1, seed=1 << 64),
    lambda g: g.branches[0].extend(-2),
    lambda g: g.branches[0].rewind(tokens=-2),
    lambda g: g.branches[0].rewind(),
    lambda g: g.branches[0].rewind(tokens=1, chars=1),
    lambda g: g.add_branch(0),
    lambda g: g.add_branch(1, Sampling(regex="(")),
]


def test_verbs_that_mean_nothing_are_refused_and_change_nothing(
    engine: Engine, undisturbed: list[tuple[int, ...]]
) -> None:
    generation = started(engine)
    for number, ask in enumerate(MEANINGLESS):
        with pytest.raises(InvalidRequest):
            ask(generation)
            pytest.fail(f"number {number} was not refused")
    finish(engine, generation)
    assert [b.ids for b in generation.branches] == undisturbed
    for ask in MEANINGLESS:
        with pytest.raises(InvalidRequest):
            ask(generation)
    assert generation.done


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(dry_multiplier=1.0, dry_sequence_breakers=("\ud800",)),
        Sampling(banned_phrases=("\ud800",)),
        Sampling(grammar='root ::= "\ud800"'),
        Sampling(json_schema='"\ud800"'),
    ],
)
def test_half_a_character_to_sample_by_is_refused(engine: Engine, sampling: Sampling) -> None:
    with pytest.raises(InvalidRequest):
        engine.submit(Request(PROMPT, sampling=sampling))


@pytest.mark.parametrize("begun", [{"begin": (5,)}, {"takes": (Take(" He"),)}])
@pytest.mark.parametrize("asked", [{"next_logprobs": 3}, {"next_ids": (5,)}])
def test_what_could_follow_the_prompt_is_asked_where_branches_stand_there(
    engine: Engine, asked: dict[str, Any], begun: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match="follows the prompt"):
        engine.submit(Request(PROMPT, **asked, **begun))


@pytest.mark.parametrize("place", ["template_for", "seed"])
def test_an_error_that_nobody_foresaw_ends_the_request_that_it_is_of(
    engine: Engine, undisturbed: list[tuple[int, ...]], place: str
) -> None:
    good, bad = started(engine), engine.submit(Request("Once", heal=False))

    def fails(*_: object) -> None:
        raise OverflowError("too much")

    bad.branches[0].set_sampling(Sampling(top_k=7))
    setattr(bad.engine_state, place, fails)
    bad.branches[0].reroll()
    with pytest.raises(EngineError, match="too much"):
        finish(engine, bad)
    finish(engine, good)
    assert [b.ids for b in good.branches] == undisturbed


def test_more_branches_than_can_live_are_refused(engine: Engine) -> None:
    generation = started(engine, 1, n=1)
    with pytest.raises(LimitExceeded):
        generation.add_branch(9)
    generation.cancel()
    finish(engine, generation)


def test_killing_gives_the_cells_back_at_once(engine: Engine) -> None:
    generation = started(engine, n=1)
    before = engine.stats().used_cells
    generation.branches[0].kill()
    engine.process()
    assert engine.stats().used_cells == len(generation.prompt_ids) < before


def test_killing_an_ended_branch_leaves_its_text_and_the_cells_of_the_others(engine: Engine) -> None:
    generation = started(engine, n=3)
    finish(engine, generation)
    first, second, third = generation.branches
    text, before = first.text, engine.stats()
    first.kill()
    engine.process()
    assert (first.finish_reason, first.text) == (FinishReason.KILLED, text)
    assert engine.stats().used_cells < before.used_cells
    second.extend(4)
    third.extend(4)
    finish(engine, generation)
    assert engine.stats().branch_rows - before.branch_rows <= 2 * 5, "what the others held is still there"
    first.extend(4)
    finish(engine, generation)
    assert first.text.startswith(text) and len(first.ids) == LENGTH + 4


@pytest.mark.parametrize("n", [1, 2])
def test_killing_a_paused_branch_gives_the_cells_back(engine: Engine, n: int) -> None:
    generation = started(engine, n=n)
    for branch in generation.branches:
        branch.pause()
    engine.process()
    for branch in generation.branches:
        branch.kill()
    engine.process()
    assert generation.done
    assert engine.stats().used_cells <= len(generation.prompt_ids)
