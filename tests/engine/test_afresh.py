"""Requests that want nothing of the cache, and requests whose penalties look back at something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    PromptProgress,
    Request,
    Sampling,
    Stop,
    TokenRun,
)

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


# ---- penalties


def two_tokens(engine: Engine, prompt: Any, **more: Any) -> Any:
    """A request that has two tokens to choose from, and writes none that it has seen."""

    def two(logits: Any, view: Any) -> None:
        logits[:] = -np.inf
        logits[[300, 301]] = (1.0, 0.0)

    sampling = Sampling(temperature=0.0, presence_penalty=5.0, repeat_last_n=-1)
    request = Request(prompt, sampling=sampling, stop=Stop(max_tokens=1), logits_callback=two, **more)
    generation = engine.submit(request)
    finish(engine, generation)
    return generation


def test_penalties_look_back_at_the_prompt_or_at_what_they_are_told(engine: Engine) -> None:
    def written(**more: Any) -> tuple[int, ...]:
        return two_tokens(engine, [1, 300, 2], **more).branches[0].ids

    assert written() == (301,)
    for seen in ([300], (TokenRun("", (5, 300)),), engine.detokenize([300])):
        assert written(penalty_prompt=seen) == (301,)
    for unseen in ("", [], (), [301]):
        assert written(penalty_prompt=unseen) == (300,)
