"""What docs/sampling.md says is identical, is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    EngineOptions,
    Request,
    Stop,
)
from tests.fakes.shared_model import load_engine

from .support import PROMPT, ask, finish, fixture_of, forcing, seeded, short_model, toy_model
from .toy_models import make_gemma, make_jamba, make_mamba

OPTIONS = EngineOptions(n_ctx=1024, gpu_layers=0, seed=1, threads=1, max_branches=8)
"""Weights of eight bits, no flash attention: of all settings the most sensitive one."""
HOT = seeded(5, temperature=1.3, top_k=0, top_p=1.0, min_p=0.0)
STORY = PROMPT * 8


def load(options: EngineOptions = OPTIONS, make: Callable[[Path], Path] | None = None) -> Engine:
    engine = load_engine(short_model() if make is None else toy_model(make), options, thread=False)
    engine._scheduler.budget.size = lambda writing, abortable: 48  # type: ignore[method-assign]
    return engine


engine = fixture_of(load)


def row_of(engine: Engine, n: int, script: list[int]) -> list[np.ndarray]:
    """Logits that branch 0 of ``n`` saw while it wrote ``script``, from an empty cache."""
    engine.reset()
    seen: dict[int, list[np.ndarray]] = {}
    scripts = [script, *([(t * 7 + k) % 4000 for t in script] for k in range(1, n))]
    stop = Stop(max_tokens=len(script), ignore_eog=True)
    generation = engine.submit(Request(STORY, n=n, stop=stop, logits_callback=forcing(scripts, seen)))
    finish(engine, generation)
    return seen[0]


SCRIPT = [310, 420, 530, 640, 750, 860, 970, 1080]


def write(engine: Engine, n: int = 4, prompt: str = STORY, **more: Any) -> list[tuple[int, ...]]:
    """The ids that ``n`` branches write on an engine with nothing else to do."""
    asked = {"sampling": HOT, "stop": Stop(max_tokens=24, ignore_eog=True), **more}
    generation = engine.submit(Request(prompt, n=n, **asked))
    finish(engine, generation)
    return [branch.ids for branch in generation.branches]


SETTINGS: tuple[dict[str, Any], ...] = (
    {"sampling": replace(HOT, regex="( [a-z]+)+")}, {"sampling": replace(HOT, repeat_penalty=1.3)},
    {"sampling": replace(HOT, mirostat=2)}, {"prompt": STORY + " He saw a fo", "heal": True},
    {"siblings": "distinct"}, {"logprobs": 2},
)  # fmt: skip


@pytest.mark.parametrize(
    ("more", "make"),
    [
        ({}, None), *((more, None) for more in SETTINGS),
        *(({"prompt": STORY[:150]}, make) for make in (make_gemma, make_jamba, make_mamba)),
    ],
    ids=lambda case: case.__name__ if callable(case) else "-".join(case or ["plain"]),
)  # fmt: skip
def test_a_new_engine_writes_the_same_with_any_settings_and_any_memory(
    more: dict[str, Any], make: Callable[[Path], Path] | None
) -> None:
    found = []
    for _ in range(2):
        with load(make=make) as engine:
            beside = ask(engine, PROMPT, n=2, tokens=20)
            found.append(write(engine, 3, **more))
            finish(engine, beside)
            found[-1] += [branch.ids for branch in beside.branches]
    assert found[0] == found[1] and len(set(found[0])) == 5


def test_with_flash_attention_and_one_thread_the_number_of_branches_does_not_matter() -> None:
    with load(replace(OPTIONS, flash_attn="on")) as engine:
        one = row_of(engine, 1, SCRIPT)
        for n in (2, 3, 8):
            for a, b in zip(one, row_of(engine, n, SCRIPT), strict=True):
                assert np.array_equal(a, b)
