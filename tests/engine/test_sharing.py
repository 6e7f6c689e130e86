"""The batch is shared between clients, then between their requests: nobody waits long for others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import EngineOptions, Request, Stop
from tests.fakes.shared_model import load_engine

from .support import drive, finish, seeded, short_model

FIRST_TOKEN = 10  # steps


@pytest.fixture
def engine() -> Iterator[Engine]:
    options = EngineOptions(n_ctx=4096, gpu_layers=0, seed=1, threads=1, max_branches=16)
    with load_engine(short_model(), options, thread=False) as loaded:
        yield loaded


def ask(engine: Engine, client: str, n: int, tokens: int, prompt: str = "", **more: object) -> Generation:
    stop = Stop(max_tokens=tokens, ignore_eog=True)
    prompt = prompt or f"Once upon a time, {client} sat in a tree."
    request = Request(prompt, n=n, stop=stop, sampling=seeded(n), client=client, **more)  # type: ignore[arg-type]
    return engine.submit(request)


def written(generation: Generation) -> int:
    return sum(len(b.ids) for b in generation.branches)


def running(engine: Engine, *generations: Generation) -> list[int]:
    runners = engine._scheduler.queue.running
    return [sum(r.request.generation is g for r in runners) for g in generations]


def steps_to_first_token(engine: Engine, generation: Generation) -> int:
    return drive(engine, lambda: written(generation))


@pytest.mark.parametrize(
    ("heavy", "client"),
    [
        ([("the crow", 16)], "the fox"),
        ([(f"client {k}", 4) for k in range(16)], "the fox"),
        ([(f"client {k}", 1) for k in range(16)], "the fox"),
        ([("the crow", 16)], "the crow"),
    ],
    ids=["one request", "many clients", "as many clients as places", "the client's own request"],
)
def test_who_comes_while_others_take_every_place_has_a_token_soon(
    engine: Engine, heavy: list[tuple[str, int]], client: str
) -> None:
    others = [ask(engine, other, n, 1500) for other, n in heavy]
    drive(engine, lambda: sum(running(engine, *others)) == 16)
    drive(engine, lambda: all(written(g) for g in others))
    small = ask(engine, client, 1, 8, "Another tale.")
    assert steps_to_first_token(engine, small) <= FIRST_TOKEN
    finish(engine, small)
    drive(engine, lambda: sum(running(engine, *others)) == 16)  # and what gave way goes on
