"""A token is evaluated once: rows are counted where they are handed to llama_decode."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Branch, Generation
from srbwriter.engine.types import EngineOptions, Request, Stop, TokenRun
from tests.fakes.shared_model import load_engine

from .support import (
    PROMPT,
    WAIT,
    decoded_rows,
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


def test_a_reroll_evaluates_nothing_of_the_prompt(engine: Engine) -> None:
    generation = write(engine, PROMPT, stop=ONE)
    with decoded_rows(engine) as rows:
        for branch in generation.branches:
            branch.reroll()
        generation.wait(WAIT)
    assert sum(rows) == 0
    assert all(len(b.ids) == 1 for b in generation.branches)


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
