"""A branch with a contrast avoids what its own text makes likely."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.processors.contrast import likeness
from srbwriter.engine.types import Request, Stop

from .support import GREEDY, PROMPT, decoded_rows, drive, exact_engine, finish, fixture_of, started

engine = fixture_of(exact_engine)


def repeated(ids: tuple[int, ...]) -> int:
    """How many triples of tokens stand in ``ids`` more than once, each time after the first."""
    return sum(times - 1 for times in Counter(zip(ids, ids[1:], ids[2:], strict=False)).values())


def test_likeness_is_how_the_text_went_on_before() -> None:
    found = likeness([1, 2, 3, 1, 2, 4, 5, 2])
    assert found == {1: 2 / 8, 2: 3 / 8, 3: 1 / 8 + 1 / 2, 4: 1 / 8 + 1 / 2, 5: 1 / 8}
    assert likeness([1, 2, 3, 1, 2])[3] == pytest.approx(1 / 5 + 1 + 1)
    assert likeness([7]) == {7: 1.0} and likeness([]) == {}


def test_text_repeats_itself_less_from_the_next_token_on(engine: Engine) -> None:
    engine.reset()
    rule = Stop(max_tokens=200, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, n=2, sampling=GREEDY, stop=rule))
    plain, steered = generation.branches
    drive(engine, lambda: len(steered.ids) == 100)
    steered.set_sampling(replace(GREEDY, contrast=8.0))
    expected = steered.ids
    with decoded_rows(engine) as rows:
        engine.process()
    assert steered.ids[:100] == expected and len(steered.ids) == 101 and len(rows) == 1
    finish(engine, generation)
    assert plain.ids[:100] == expected
    assert repeated(steered.ids) - repeated(expected) < (repeated(plain.ids) - repeated(expected)) / 2


def test_it_ends_and_leaves_the_others_alone(engine: Engine) -> None:
    finish(engine, free := started(engine))
    undisturbed = [branch.ids for branch in free.branches]
    generation = started(engine)
    branch = generation.branches[1]
    usual = branch.sampling
    branch.set_sampling(replace(usual, contrast=4.0))
    branch.set_sampling(usual)
    engine.process()
    assert not branch.sampling.contrast
    finish(engine, generation)
    assert [b.ids for i, b in enumerate(generation.branches) if i != 1] == [
        ids for i, ids in enumerate(undisturbed) if i != 1
    ]
