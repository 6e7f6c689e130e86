"""A text that is longer than the window: an error with the counts, or shortened where that was asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    ContextOverflow,
    FinishReason,
    Request,
    Stop,
)
from srbwriter.engine.window import fit

from .support import GREEDY, exact_engine, finish, fixture_of

WINDOW = 128
REQUEST = Request("", stop=Stop(max_tokens=4, ignore_eog=True), sampling=GREEDY, add_bos=False)


engine = fixture_of(lambda: exact_engine(n_ctx=WINDOW, max_branches=4))


def story(engine: Engine, tokens: int) -> list[int]:
    lines = (f"Day {day}: the fox met another bird and they went to the river. " for day in range(99))
    return engine.tokenize("".join(lines))[:tokens]


@pytest.mark.parametrize("tokens", [WINDOW - 1, WINDOW])
def test_the_window_takes_one_token_less_than_it_has(engine: Engine, tokens: int) -> None:
    """The limit of llama.cpp's server: there must be room for the first token of the answer."""
    request = replace(REQUEST, prompt=story(engine, tokens))
    if tokens < WINDOW:
        generation = engine.submit(request)
        finish(engine, generation)
        assert len(generation.branches[0].ids) == 2
        assert generation.branches[0].finish_reason is FinishReason.CONTEXT
    else:
        with pytest.raises(ContextOverflow) as caught:
            engine.submit(request)
        assert (caught.value.n_prompt, caught.value.n_ctx) == (tokens, WINDOW)
        assert str(tokens) in str(caught.value)
        assert str(WINDOW) in str(caught.value)


@given(n=st.integers(1, 600), window=st.integers(16, 200), keep=st.integers(-1, 300))
def test_truncation_keeps_the_head_and_the_end(n: int, window: int, keep: int) -> None:
    ids = list(range(n))
    found = fit(ids, replace(REQUEST, overflow="truncate", n_keep=keep), window)
    if n < window:
        assert found == ids
        return
    assert 0 < len(found) < window
    head = min(keep, window - 4) if keep >= 0 else window // 2  # -1 is all of it, which is too much
    assert found[:head] == ids[:head]
    tail = found[head:]
    assert tail == ids[n - len(tail) :]
    assert tail
