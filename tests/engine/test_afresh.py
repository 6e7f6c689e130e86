"""Requests that want nothing of the cache."""

from __future__ import annotations

from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import PromptProgress, Request, Stop

from .support import PROMPT, SHORT, decoded_rows, drive, finish, fixture_of, seeded, small_engine

engine = fixture_of(small_engine)


def asked(engine: Engine, **more: Any) -> Any:
    return engine.submit(Request(PROMPT, sampling=seeded(5), stop=SHORT, **more))


@pytest.mark.parametrize("live", [True, False], ids=["somebody writes from it", "it is parked"])
@pytest.mark.parametrize("n", [1, 4])
def test_the_whole_prompt_is_evaluated_anew(engine: Engine, live: bool, n: int) -> None:
    engine.reset()
    first = engine.submit(Request(PROMPT, stop=Stop(max_tokens=None if live else 3, ignore_eog=True)))
    drive(engine, lambda: len(first.branches[0].ids) >= 3 and (live or first.done))
    length = len(first.prompt_ids)
    with decoded_rows(engine) as rows:
        afresh = asked(engine, n=n, cache_prompt=False)
        drive(engine, lambda: afresh.done)
    assert afresh.cached_tokens == 0
    assert sum(rows) >= length + 2
    assert [e.cached for e in afresh.log if isinstance(e, PromptProgress)][0] == 0
    assert all(len(b.ids) == SHORT.max_tokens for b in afresh.branches)
    first.cancel()
    finish(engine, first)
    shared = asked(engine)
    finish(engine, shared)
    assert shared.cached_tokens == length  # what others know is still there
    again = asked(engine, cache_prompt=False)
    finish(engine, again)
    assert again.cached_tokens == 0  # nor is what such a request left
