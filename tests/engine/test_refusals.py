"""Verbs that mean nothing are refused where they are given; ending gives back what a branch held."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import FinishReason, InvalidRequest, LimitExceeded, Sampling, Stop

from .support import exact_engine, finish, started


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with exact_engine() as loaded:
        yield loaded


@pytest.mark.parametrize(
    "ask",
    [
        lambda g: g.branches[0].set_sampling(Sampling(top_p=7.0)),
        lambda g: g.branches[0].set_sampling(Sampling(grammar="root ::= (")),
        lambda g: g.branches[0].set_sampling(Sampling(logit_bias=((10**6, 1.0),))),
        lambda g: g.branches[0].set_sampling("greedy"),
        lambda g: g.branches[0].set_stop(Stop(strings="the")),  # type: ignore[arg-type]
        lambda g: g.branches[0].set_stop(Stop(max_tokens=-1)),
        lambda g: g.branches[0].reroll(seed=-3),
        lambda g: g.branches[0].extend(-2),
        lambda g: g.branches[0].rewind(tokens=-2),
        lambda g: g.branches[0].rewind(),
        lambda g: g.branches[0].rewind(tokens=1, chars=1),
        lambda g: g.add_branch(0),
        lambda g: g.add_branch(1, Sampling(regex="(")),
    ],
)
def test_a_verb_that_means_nothing_is_refused_and_changes_nothing(
    engine: Engine, undisturbed: list[tuple[int, ...]], ask: Callable[[Generation], None]
) -> None:
    generation = started(engine)
    with pytest.raises(InvalidRequest):
        ask(generation)
    finish(engine, generation)
    assert [b.ids for b in generation.branches] == undisturbed
    with pytest.raises(InvalidRequest):
        ask(generation)
    assert generation.done


def test_more_branches_than_can_live_are_refused(engine: Engine) -> None:
    generation = started(engine, 1, n=1)
    with pytest.raises(LimitExceeded):
        generation.add_branch(9)
    generation.cancel()
    finish(engine, generation)


def test_cancel_keeps_all_texts(engine: Engine) -> None:
    generation = started(engine)
    texts = [b.text for b in generation.branches]
    generation.cancel()
    engine.process()
    assert generation.done
    assert [b.text for b in generation.branches] == texts
    assert {b.finish_reason for b in generation.branches} == {FinishReason.STOPPED}
    assert engine.stats().live_branches == 0


def test_killing_gives_the_cells_back_at_once(engine: Engine) -> None:
    generation = started(engine, n=1)
    before = engine.stats().used_cells
    generation.branches[0].kill()
    engine.process()
    assert engine.stats().used_cells == len(generation.prompt_ids) < before
