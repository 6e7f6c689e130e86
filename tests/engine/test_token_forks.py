"""Takes that begin with tokens: forked anywhere, inside a character too, and kept from what is banned."""

from __future__ import annotations

from typing import Any

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import Request, Sampling, Stop

from .support import PROMPT, exact_engine, finish, fixture_of, seeded

RULE = Stop(max_tokens=10, ignore_eog=True)
GREEDY = Sampling(temperature=0)
engine = fixture_of(lambda: exact_engine(n_ctx=1024))


def submit(engine: Engine, **fields: Any) -> Generation:
    given: dict[str, Any] = {"prompt": PROMPT, "stop": RULE, "sampling": seeded(3), **fields}
    return engine.submit(Request(**given))


def test_a_request_may_begin_with_tokens_and_not_go_on_with_others(engine: Engine) -> None:
    plain = submit(engine, sampling=GREEDY)
    finish(engine, plain)
    ids = plain.branches[0].ids
    begun = submit(engine, sampling=GREEDY, n=2, begin=ids[:3])
    finish(engine, begun)
    assert [branch.ids for branch in begun.branches] == [
        (*ids, *branch.ids[10:]) for branch in begun.branches
    ]
    other = submit(engine, sampling=GREEDY, without=(ids[0],))
    finish(engine, other)
    assert other.branches[0].ids[0] != ids[0]
