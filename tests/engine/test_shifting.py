"""After a context shift what branches share is evaluated once for all of them, on every kind of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from srbwriter.engine import engine as module
from srbwriter.engine.engine import Engine
from srbwriter.engine.types import EngineOptions, Request, Stop
from tests.fakes.shared_model import load_engine
from tests.sizes import some_of

from .support import finish, seeded, short_model, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba

WINDOW, PROMPT_TOKENS = 256, 200
TEXT = "".join(f"Day {day}: the fox met another bird and they went to the river. " for day in range(99))
MODELS: dict[str, Callable[[Path], Path] | None] = {
    "attention": None, "sliding": make_gemma, "hybrid": make_jamba, "recurrent": make_mamba
}  # fmt: skip


@pytest.fixture(params=MODELS)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """An engine whose window is much smaller than its cache, as where a model was trained for short texts."""
    make = MODELS[request.param]
    opened = module.open_context
    monkeypatch.setattr(module, "open_context", lambda *given: (opened(*given)[0], WINDOW))
    path = short_model() if make is None else toy_model(make)
    options = EngineOptions(n_ctx=2048, gpu_layers=0, seed=1, threads=1, max_branches=16, max_sequences=48)
    with load_engine(path, options, thread=False) as loaded:
        yield loaded


def prefixes(*paths: Any) -> set[tuple[int, ...]]:
    return {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}


@pytest.mark.parametrize("n", some_of([1, 4, 16], [4]))
@pytest.mark.parametrize("keep", [0, 16, -1])
def test_after_a_shift_every_shared_token_is_evaluated_once(engine: Engine, n: int, keep: int) -> None:
    prompt = engine.tokenize(TEXT)[:PROMPT_TOKENS]
    stop = Stop(max_tokens=WINDOW - PROMPT_TOKENS + 20, ignore_eog=True)
    generation = engine.submit(
        Request(prompt, n=n, add_bos=False, sampling=seeded(4), overflow="shift", n_keep=keep, stop=stop)
    )
    finish(engine, generation)
    runners = generation.engine_state.branches
    before = [(*prompt, *r.buffer.ids[: r.first]) for r in runners]
    assert all(r.first for r in runners)
    head = PROMPT_TOKENS if keep < 0 else keep
    assert all(len(r.base) < WINDOW and r.base[:head] == prompt[:head] for r in runners)
    wanted = prefixes(*(r.base for r in runners))
    if engine._cache.memory.can_rewind:
        wanted -= prefixes(*before)
    else:  # such a memory goes on from whole states only: where a prompt or a branch ended
        wanted -= prefixes(prompt) if keep < 0 else set()
    late = 0 if engine._cache.memory.can_rewind or n < 16 else 4  # let in late
    assert 0 <= engine.stats().prompt_rows - PROMPT_TOKENS - len(wanted) <= late
