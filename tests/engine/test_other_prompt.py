"""A branch that continues its text after another prompt writes what follows that prompt and its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import BranchState, Request, Stop

from .support import GREEDY, PROMPT, decoded_rows, drive, exact_engine, finish, fixture_of

engine = fixture_of(exact_engine)
RULE = Stop(max_tokens=24, ignore_eog=True)
AT = 8
NOTE = "A wolf is near.\n"


def noted(engine: Engine, branch: Branch, note: str = NOTE) -> tuple[int, ...]:
    """The prompt of ``branch`` with a note at its beginning."""
    first, *others = branch.generation.prompt_ids
    return (first, *engine.tokenize_continuation(note), *others)


def expected(engine: Engine, prompt: tuple[int, ...], begun: tuple[int, ...]) -> tuple[int, ...]:
    """What a new engine writes after ``prompt`` and ``begun``."""
    engine.reset()
    rule = replace(RULE, max_tokens=RULE.max_tokens - len(begun))  # type: ignore[operator]
    alone = engine.submit(Request([*prompt, *begun], sampling=GREEDY, stop=rule, add_bos=False))
    finish(engine, alone)
    return (*begun, *alone.branches[0].ids)


def begin(engine: Engine, at: int = AT, prompt: str = PROMPT, heal: bool = False) -> Branch:
    engine.reset()
    generation = engine.submit(Request(prompt, n=2, sampling=GREEDY, stop=RULE, heal=heal))
    drive(engine, lambda: all(len(b.ids) >= at for b in generation.branches))
    return generation.branches[0]


@pytest.mark.parametrize("paused", [False, True])
def test_the_next_token_follows_the_other_prompt(engine: Engine, paused: bool) -> None:
    branch = begin(engine)
    other = branch.generation.branches[1]
    before, prompt = branch.ids, noted(engine, branch)
    if paused:
        branch.pause()
    branch.set_prompt(prompt)
    if paused:
        engine.process()
        assert branch.state is BranchState.PAUSED and branch.ids == before
        branch.resume()
    with decoded_rows(engine) as rows:
        steps = drive(engine, lambda: len(branch.ids) > AT)
    assert sum(rows) <= len(prompt) + AT + steps  # from the note on, while the other writes
    finish(engine, branch.generation)
    written, untouched = branch.ids, other.ids
    assert written == expected(engine, prompt, before)
    assert untouched == expected(engine, branch.generation.prompt_ids, ()) != written


def test_it_holds_when_the_branch_is_rolled_again_rewound_and_extended(engine: Engine) -> None:
    branch = begin(engine)
    prompt = noted(engine, branch)
    branch.set_prompt(prompt)
    branch.reroll()
    finish(engine, branch.generation)
    rolled = branch.ids
    branch.rewind(tokens=4)
    finish(engine, branch.generation)
    rewound = branch.ids
    branch.extend(2)
    finish(engine, branch.generation)
    assert rolled == rewound == branch.ids[:24] == expected(engine, prompt, ())
    assert len(branch.ids) == 26
