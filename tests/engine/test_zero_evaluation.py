"""A token is evaluated once: rows are counted where they are handed to llama_decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineOptions, Priority, Request, Stop, TokenRun
from tests.fakes.shared_model import load_engine

from .support import (
    PROMPT,
    WAIT,
    decoded_rows,
    finish,
    rest,
    runs_of,
    seeded,
    short_model,
)

ONE, TWENTY = (Stop(max_tokens=count, ignore_eog=True) for count in (1, 20))


@pytest.fixture
def engine() -> Iterator[Engine]:
    """A cold engine for every test: what is counted must not depend on other tests."""
    with load_engine(short_model(), EngineOptions(n_ctx=2048, gpu_layers=0, seed=1)) as loaded:
        loaded._scheduler.queue.rest_seconds = 3600.0
        yield loaded


def write(engine: Engine, prompt: object, n: int = 4, stop: Stop = TWENTY, seed: int = 1) -> Generation:
    return engine.submit(Request(prompt, n=n, stop=stop, sampling=seeded(seed))).wait(WAIT)  # type: ignore[arg-type]


def agree(engine: Engine, rows: list[int], before_prompt: int, before_branch: int) -> None:
    """The engine's own statistics say what the spy saw."""
    stats = engine.stats()
    assert stats.prompt_rows - before_prompt + stats.branch_rows - before_branch == sum(rows)


def test_the_prompt_is_evaluated_once_for_all_branches(engine: Engine) -> None:
    with decoded_rows(engine) as rows:
        generation = write(engine, PROMPT, n=8, stop=ONE)
    assert sum(rows) == len(generation.prompt_ids)
    agree(engine, rows, 0, 0)


TYPED = " Then the rain began."
PICKS: dict[str, Callable[[Branch], tuple[TokenRun, ...]]] = {
    "all of it": runs_of,
    "a part": lambda b: (TokenRun("", b.generation.prompt_ids), TokenRun("", b.ids[:7])),
    "typed text after it": lambda b: (*runs_of(b), TokenRun(TYPED)),
}


@pytest.mark.parametrize("pick", PICKS)
def test_a_pick_evaluates_only_its_pending_token_and_what_was_typed(engine: Engine, pick: str) -> None:
    first = write(engine, PROMPT)
    with decoded_rows(engine) as rows:
        second = write(engine, PICKS[pick](first.branches[2]), stop=ONE)
    typed = len(engine.model.tokenize_continuation(TYPED)) if pick.startswith("typed") else 0
    assert sum(rows) == 1 + typed  # the 20th token was sampled, and never evaluated before
    assert second.cached_tokens == len(second.prompt_ids) - 1 - typed


def still_engine(**options: int) -> Engine:
    """An engine that steps only when told to."""
    chosen = EngineOptions(n_ctx=1024, gpu_layers=0, seed=1, **options)
    engine = load_engine(short_model(), chosen, thread=False)
    engine._scheduler.queue.rest_seconds = 3600.0  # idle work is done by rest()
    return engine


def read_by_a_writer(engine: Engine, n: int, tokens: int = 20) -> Generation:
    """A finished request in the foreground, and an engine that has nothing left to do."""
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    generation = engine.submit(Request(PROMPT, n=n, stop=stop, sampling=seeded(1), priority=Priority.NORMAL))
    finish(engine, generation)
    rest(engine)
    return generation


def test_a_pick_in_the_foreground_finds_even_its_pending_token_evaluated() -> None:
    with still_engine() as engine:
        with decoded_rows(engine) as rows:
            first = read_by_a_writer(engine, n=6)
        assert rows[-1] == 6  # one decode for the ends of all
        agree(engine, rows, 0, 0)
        for picked in first.branches:
            with decoded_rows(engine) as rows:
                onward = Request(runs_of(picked), n=3, stop=ONE)
                second = engine.submit(onward)
                finish(engine, second)
            assert rows == []
            assert second.cached_tokens == len(second.prompt_ids)


def test_a_reroll_evaluates_nothing_of_the_prompt(engine: Engine) -> None:
    generation = write(engine, PROMPT, stop=ONE)
    with decoded_rows(engine) as rows:
        for branch in generation.branches:
            branch.reroll()
        generation.wait(WAIT)
    assert sum(rows) == 0
    assert all(len(b.ids) == 1 for b in generation.branches)


def test_going_back_to_an_older_node_evaluates_nothing(engine: Engine) -> None:
    root = write(engine, PROMPT)
    chosen = write(engine, runs_of(root.branches[0]))
    write(engine, runs_of(chosen.branches[3]))
    with decoded_rows(engine) as rows:
        write(engine, runs_of(root.branches[0]), stop=ONE, seed=5)  # undo of the last pick
        write(engine, PROMPT, stop=ONE, seed=6)  # undo of both
        write(engine, runs_of(chosen.branches[3]), stop=ONE, seed=7)  # redo
    assert sum(rows) == 0


@pytest.mark.parametrize("tokens", [1, 6, 20])
def test_a_rewind_evaluates_at_most_one_token(engine: Engine, tokens: int) -> None:
    generation = write(engine, PROMPT, n=3)
    kept = 20 - tokens
    branch = generation.branches[1]
    branch.change(stop=Stop(max_tokens=kept + 1, ignore_eog=True))
    with decoded_rows(engine) as rows:
        branch.rewind(tokens=tokens)
        generation.wait(WAIT)
    assert len(branch.ids) == kept + 1
    assert sum(rows) == (1 if kept else 0)


def test_two_requests_for_one_prompt_evaluate_it_once(engine: Engine) -> None:
    long = PROMPT * 20
    with decoded_rows(engine) as rows:
        generations = [engine.submit(Request(long, n=2, stop=ONE)) for _ in range(3)]
        for generation in generations:
            generation.wait(WAIT)
    assert sum(rows) == len(generations[0].prompt_ids)
