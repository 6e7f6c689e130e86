"""A branch that has ended is thrown away: its memory comes back, its text and the other branches stay."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import FinishReason, Request

from .support import LENGTH, PROMPT, RULE, exact_engine, finish, seeded


@pytest.fixture
def engine() -> Iterator[Engine]:
    with exact_engine() as loaded:
        yield loaded


def test_killing_an_ended_branch_gives_its_cells_back_and_no_other_branch_loses_any(engine: Engine) -> None:
    generation = engine.submit(Request(PROMPT, n=3, stop=RULE, sampling=seeded(3)))
    finish(engine, generation)
    first, second, third = generation.branches
    text, before = first.text, engine.stats().used_cells
    first.kill()
    engine.process()
    assert (first.finish_reason, first.text) == (FinishReason.KILLED, text)
    assert engine.stats().used_cells < before
    rows = engine.stats().branch_rows
    second.extend(4)
    third.extend(4)
    finish(engine, generation)
    assert engine.stats().branch_rows - rows <= 2 * 5, "what the others held is still there"
    first.extend(4)
    finish(engine, generation)
    assert first.text.startswith(text) and len(first.ids) == LENGTH + 4
