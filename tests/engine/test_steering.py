"""Every verb of a branch handle acts within one step, and no other branch notices.

The engine is stepped by the test, so that "within one step" is one call. Each verb is given to one
branch of four in the middle of its text; the other three must write the very ids they write when
nobody touches anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch
from srbwriter.engine.types import (
    Added,
    BranchState,
    Cut,
    FinishReason,
    Sampling,
    Stop,
)
from srbwriter.prose import last_sentence_start

from .support import (
    AT,
    LENGTH,
    decoded_rows,
    drive,
    exact_engine,
    finish,
    fixture_of,
    published,
    started,
)

CHOSEN = 1


engine = fixture_of(exact_engine)


@dataclass
class Before:
    """What the branch was when the verb was given."""

    text: str
    ids: tuple[int, ...]
    revision: int


COMPELLED = 300
VERBS: dict[str, tuple[Callable[[Branch], None], Callable[[Branch, Before], bool]]] = {
    "stop": (
        lambda b: b.stop(),
        lambda b, was: (b.finish_reason, b.text, b.ids) == (FinishReason.STOPPED, was.text, was.ids),
    ),
    "kill": (  # the handle keeps its text
        lambda b: b.kill(), lambda b, was: (b.finish_reason, b.text) == (FinishReason.KILLED, was.text)
    ),
    "reroll": (  # one token from the prompt's stored logits, one from the step
        lambda b: b.reroll(),
        lambda b, was: b.live and len(b.ids) == 2 and b.buffer.revision == was.revision + 1,
    ),
    "pause": (lambda b: b.pause(), lambda b, was: b.state is BranchState.PAUSED and b.ids == was.ids),
    "rewind tokens": (lambda b: b.rewind(tokens=5), lambda b, was: b.live and b.ids[:-1] == was.ids[:-5]),
    "rewind chars": (
        lambda b: b.rewind(chars=7),
        lambda b, was: b.text.startswith(was.text[:-7]) and b.buffer.revision == was.revision + 1
        and len(b.text) < len(was.text) + 7,
    ),
    "rewind sentence": (  # which may have been a word long, and another has come
        lambda b: b.rewind(sentences=1),
        lambda b, was: b.text.startswith(was.text[: last_sentence_start(was.text, 1)])
        and b.buffer.revision == was.revision + 1
        and len(b.ids) <= len(was.ids) and b.ids[:-1] == was.ids[: len(b.ids) - 1],
    ),
    "set sampling": (
        lambda b: b.change(Sampling(logit_bias=((COMPELLED, 1e6),))),
        lambda b, was: b.ids == (*was.ids, COMPELLED),
    ),
    "set stop": (
        lambda b: b.change(stop=Stop(max_tokens=AT)),
        lambda b, was: (b.finish_reason, b.ids) == (FinishReason.LENGTH, was.ids),
    ),
}  # fmt: skip
"""What is asked of a branch, and what holds one step later."""


@pytest.mark.parametrize("name", VERBS)
def test_a_verb_acts_within_one_step_and_on_one_branch(
    engine: Engine, undisturbed: list[tuple[int, ...]], name: str
) -> None:
    verb, check = VERBS[name]
    generation = started(engine)
    branch = generation.branches[CHOSEN]
    before = Before(branch.text, branch.ids, branch.buffer.revision)
    others = [len(b.ids) for b in generation.branches]
    verb(branch)
    engine.process()
    assert check(branch, before)
    for index, other in enumerate(generation.branches):
        if index != CHOSEN:
            assert len(other.ids) == others[index] + 1  # the step was theirs too
    branch.resume()
    finish(engine, generation)
    assert [b.ids for i, b in enumerate(generation.branches) if i != CHOSEN] == [
        ids for i, ids in enumerate(undisturbed) if i != CHOSEN
    ]


def test_a_paused_branch_goes_on_where_it_was(engine: Engine, undisturbed: list[tuple[int, ...]]) -> None:
    generation = started(engine)
    branch = generation.branches[CHOSEN]
    branch.pause()
    drive(engine, lambda: all(len(b.ids) == LENGTH for b in generation.branches if b is not branch))
    assert len(branch.ids) == AT
    assert not generation.done
    with decoded_rows(engine) as rows:
        branch.resume()
        engine.process()
        assert len(branch.ids) == AT + 1
        finish(engine, generation)
    assert [b.ids for b in generation.branches] == undisturbed
    assert sum(rows) == LENGTH - AT  # nothing was evaluated twice


def test_a_branch_joins_a_running_request(engine: Engine, undisturbed: list[tuple[int, ...]]) -> None:
    generation = started(engine)
    prompt_rows = engine.stats().prompt_rows
    with decoded_rows(engine) as rows:
        generation.add_branch(2)
        engine.process()
    assert len(rows) == 1
    assert engine.stats().prompt_rows == prompt_rows
    assert [len(b.ids) for b in generation.branches] == [AT + 1] * 4 + [2, 2]
    assert [e.branch for e in generation.log if isinstance(e, Added)] == [4, 5]
    finish(engine, generation)
    assert [b.ids for b in generation.branches[:4]] == undisturbed
    assert len({b.ids for b in generation.branches}) == 6


@pytest.mark.parametrize("where", [1, 3, 9, 10_000])
def test_characters_are_cut_exactly(engine: Engine, where: int) -> None:
    generation = started(engine, 0, n=1)
    finish(engine, generation)
    branch = generation.branches[0]
    text = branch.text
    branch.change(stop=Stop(max_tokens=0))  # writes nothing more
    branch.rewind(chars=where)
    finish(engine, generation)
    assert branch.text == text[: max(len(text) - where, 0)]
    assert engine.detokenize(branch.ids) == branch.text
    assert [e.chars for e in generation.log if isinstance(e, Cut)] == [len(branch.text)]


def test_events_tell_the_same_story_as_the_buffers(engine: Engine) -> None:
    generation = started(engine)
    for number, (verb, _) in enumerate(VERBS.values()):
        branch = generation.branches[number % 4]
        verb(branch)
        for _ in range(3):
            engine.process()
        branch.resume()
    finish(engine, generation)
    assert published(generation) == [(branch.text, list(branch.ids)) for branch in generation.branches]


def test_a_reader_with_a_cursor_misses_nothing(engine: Engine) -> None:
    generation = started(engine, 0, n=1)
    branch = generation.branches[0]
    seen, cursor, resets = "", None, 0
    verbs = iter([lambda: branch.rewind(tokens=4), lambda: branch.extend(4), lambda: branch.reroll()])
    for step in range(60):
        if step % 9 == 8:
            next(verbs, lambda: None)()
        engine.process()
        text, reset, cursor = branch.read(cursor)
        seen = text if reset else seen + text
        resets += reset
        assert seen == branch.text
    assert resets == 2  # writing on is not taking back
