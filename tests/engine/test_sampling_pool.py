"""Rows that are drawn side by side give the tokens that they give one after another."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.sampling_pool import SamplingPool
from srbwriter.engine.types import NotANumber, Request, Stop
from tests.fakes.shared_model import load_engine

from .support import GREEDY, PROMPT, SMALL, drive, fixture_of, seeded, small_engine, toy_model
from .toy_models import make_without_numbers

engine = fixture_of(small_engine, "function")

SEED = seeded(5, temperature=1.2)
LONG = Stop(max_tokens=24, ignore_eog=True)


def helpers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("srbwriter-sampling")}


def draw_together(engine: Engine) -> None:
    """Let all rows that can be drawn side by side be drawn so, in three threads."""
    engine._scheduler.loop.pool = SamplingPool(3, candidates=1)


def written(together: bool, *asked: Request) -> list[Any]:
    """What the branches of requests write on a new engine, each asked some steps after the one before."""
    generations: list[Generation] = []
    with small_engine() as engine:
        if together:
            draw_together(engine)
        for request in asked:
            generations.append(engine.submit(request))
            for _ in range(5):
                engine.process()
        drive(engine, lambda: all(generation.done for generation in generations))
        assert bool(helpers()) is together
        return [
            (branch.ids, branch.text, branch.finish_reason, branch.buffer.logprobs)
            for generation in generations
            for branch in generation.branches
        ]


PLAIN = Request(PROMPT, n=3, sampling=SEED, stop=LONG)
CASES: dict[str, tuple[Request, ...]] = {
    "greedy": (replace(PLAIN, sampling=GREEDY),),
    "seeds": (PLAIN,),
    "penalties": (replace(PLAIN, sampling=replace(SEED, repeat_penalty=1.3, presence_penalty=0.2)),),
    "dry": (replace(PLAIN, sampling=replace(SEED, dry_multiplier=0.8, dry_allowed_length=1)),),
    "mirostat": (replace(PLAIN, sampling=replace(SEED, mirostat=2)),),
    "bias": (replace(PLAIN, sampling=replace(SEED, logit_bias=((310, 4.0), (420, -np.inf)))),),
    "logprobs": (replace(PLAIN, logprobs=3),),
    "stops": (replace(PLAIN, n=6, stop=Stop(max_tokens=24, strings=("wo",), after_any=(".",))),),
    "bans": (replace(PLAIN, n=6, sampling=replace(SEED, banned_phrases=("the", "was", "a"))),),
    "beside a grammar": (replace(PLAIN, sampling=replace(SEED, regex="( [a-z]+)+")), PLAIN),
    "beside siblings": (PLAIN, replace(PLAIN, siblings="distinct")),
}  # fmt: skip


@pytest.mark.parametrize("asked", CASES.values(), ids=CASES)
def test_the_same_is_written_with_and_without_a_pool(asked: tuple[Request, ...]) -> None:
    assert written(True, *asked) == written(False, *asked)


def test_a_row_without_numbers_ends_its_branch() -> None:
    with load_engine(toy_model(make_without_numbers), SMALL, thread=False) as engine:
        draw_together(engine)
        generation = engine.submit(Request("a fox", n=3, sampling=SEED, stop=LONG, logprobs=2))
        drive(engine, lambda: generation.done)
        with pytest.raises(NotANumber):
            generation.wait(0)
