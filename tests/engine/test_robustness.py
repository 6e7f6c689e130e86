"""No input and no code of the caller brings the engine down, or costs another request anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import (
    BranchView,
    EngineClosed,
    EngineError,
    Failed,
    InvalidRequest,
    Request,
    Sampling,
    Stop,
)

from .support import GREEDY, PROMPT, SHORT, drive, finish, small_engine, works


@pytest.fixture
def engine() -> Iterator[Engine]:
    with small_engine() as loaded:
        yield loaded


def test_a_callback_that_raises_ends_its_request_only(engine: Engine) -> None:
    def fail(logits: Any, view: BranchView) -> None:
        if len(view.ids) == 2:
            raise ZeroDivisionError("mine")

    other = engine.submit(Request("The king", n=2, stop=Stop(max_tokens=12, ignore_eog=True)))
    failing = engine.submit(Request(PROMPT, n=3, stop=SHORT, logits_callback=fail))
    drive(engine, lambda: failing.done)
    with pytest.raises(InvalidRequest, match="ZeroDivisionError: mine") as caught:
        failing.wait(0)
    assert caught.value.field == "logits_callback"
    assert sum(isinstance(e, Failed) for e in failing.log) == 1
    finish(engine, other)
    assert [len(b.ids) for b in other.branches] == [12, 12]
    failing.branches[0].reroll()  # what has failed stays so
    failing.add_branch()
    engine.process()
    assert failing.done
    assert works(engine)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda logits: logits.fill(np.nan), lambda logits: logits.fill(-np.inf),
        lambda logits: logits.fill(np.inf), lambda logits: logits.fill(0.0),
    ],
)  # fmt: skip
def test_a_callback_may_leave_nothing_to_choose(engine: Engine, spoil: Callable[[Any], None]) -> None:
    generation = engine.submit(
        Request(PROMPT, n=2, stop=SHORT, logits_callback=lambda logits, _: spoil(logits), logprobs=1)
    )
    finish(engine, generation)
    assert [len(b.ids) for b in generation.branches] == [4, 4]
    assert works(engine)


def test_a_callback_changes_only_its_own_copy(engine: Engine) -> None:
    def compel(logits: Any, view: BranchView) -> None:
        logits[:] = -np.inf
        logits[300 + view.index] = 0.0

    compelled = engine.submit(Request(PROMPT, n=2, stop=SHORT, logits_callback=compel, sampling=GREEDY))
    free = engine.submit(Request(PROMPT, stop=SHORT, sampling=GREEDY))
    finish(engine, compelled, free)
    assert [b.ids for b in compelled.branches] == [(300,) * 4, (301,) * 4]
    engine.reset()
    alone = engine.submit(Request(PROMPT, stop=SHORT, sampling=GREEDY))
    finish(engine, alone)
    assert free.branches[0].ids == alone.branches[0].ids


def test_listeners_hear_once_a_step_and_may_raise(engine: Engine) -> None:
    heard: list[int] = []
    loop = asyncio.new_event_loop()
    loop.close()
    generation = engine.submit(Request(PROMPT, n=4, stop=Stop(max_tokens=6, ignore_eog=True)))
    generation.add_listener(lambda: loop.call_soon_threadsafe(print))  # raises: the loop is closed
    remove = generation.add_listener(lambda: heard.append(len(generation.log)))
    steps = drive(engine, lambda: generation.done)
    assert 0 < len(heard) <= steps + 1  # the first tokens of all are told before the step's decode
    assert heard == sorted(set(heard))
    remove()
    remove()
    generation.branches[0].reroll()
    finish(engine, generation)
    assert heard[-1] < len(generation.log)
    assert works(engine)


def test_a_step_that_fails_ends_the_requests_and_not_the_engine(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    generation = engine.submit(Request(PROMPT, n=2, stop=SHORT))
    engine.process()
    with monkeypatch.context() as patch:
        patch.setattr(engine._context, "decode", lambda *_: 1 // 0)
        engine.process()
    with pytest.raises(EngineError):
        generation.wait(0)
    assert engine.alive
    assert engine.stats().used_cells == 0
    assert works(engine)


def test_an_engine_that_keeps_failing_says_so(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine._context, "decode", lambda *_: 1 // 0)
    for _ in range(3):
        generation = engine.submit(Request(PROMPT, stop=SHORT))
        engine.process()
        with pytest.raises(EngineError):
            generation.wait(0)
    assert not engine.alive
    with pytest.raises(EngineClosed, match="failed"):
        engine.submit(Request(PROMPT))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 0), ("n", -1), ("n", 2.0), ("n", True), ("n", 9), ("priority", 7), ("priority", "soon"),
        ("sampling", "greedy"), ("sampling", None), ("sampling", (Sampling(),) * 3), ("stop", "the"),
        ("stop", (Stop(),)), ("logprobs", -1), ("logprobs", "5"), ("prompt_logprobs", -1), ("heal", "yes"),
        ("next_logprobs", -1), ("next_ids", (-1,)), ("next_ids", ("1",)),
        ("overflow", "wrap"), ("n_keep", -2), ("n_keep", "all"), ("logits_callback", 5), ("add_bos", None),
    ],
)  # fmt: skip
def test_a_field_that_means_nothing_is_named(engine: Engine, field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(replace(Request(PROMPT, n=2), **{field: value}))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"max_tokens": -1}, "max_tokens"), ({"max_tokens": 1.5}, "max_tokens"),
        ({"min_tokens": -1}, "min_tokens"), ({"after_any": "a"}, "after_any"),
        ({"strings": "the"}, "stop"), ({"strings": (1,)}, "stop"), ({"boundary": "page"}, "boundary"),
        ({"token_ids": (-1,)}, "stop_token_ids"), ({"token_ids": (10**9,)}, "stop_token_ids"),
        ({"max_seconds": -1.0}, "max_seconds"), ({"ignore_eog": 1}, "ignore_eos"),
    ],
)  # fmt: skip
def test_a_rule_that_means_nothing_is_named(engine: Engine, fields: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        engine.submit(Request(PROMPT, stop=Stop(**fields)))
    assert caught.value.field == name


@pytest.mark.parametrize(
    "fields",
    [
        {"logit_bias": ((10**6, 1.0),)}, {"logit_bias": ((-1, 1.0),)}, {"logit_bias": [(5, 1.0)]},
        {"grammar": "root ::= ("}, {"regex": "("}, {"json_schema": "{"}, {"temperature": float("nan")},
    ],
)  # fmt: skip
def test_settings_that_cannot_be_sampled_by_are_refused_at_once(
    engine: Engine, fields: dict[str, Any]
) -> None:
    other = engine.submit(Request("The king", stop=SHORT))
    with pytest.raises(InvalidRequest):
        engine.submit(Request(PROMPT, sampling=Sampling(**fields)))
    finish(engine, other)
