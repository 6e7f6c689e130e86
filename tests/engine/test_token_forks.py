"""Takes that begin with tokens: forked anywhere, inside a character too, and kept from what is banned."""

from __future__ import annotations

from typing import Any

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.types import FinishReason, Request, Sampling, Stop

from .support import PROMPT, decoded_rows, exact_engine, finish, fixture_of, seeded

RULE = Stop(max_tokens=10, ignore_eog=True)
GREEDY = Sampling(temperature=0)
TEXT = " a cat 🐈, naïve “so” 東京\n\nand on"


engine = fixture_of(lambda: exact_engine(n_ctx=1024))


def submit(engine: Engine, **fields: Any) -> Generation:
    given: dict[str, Any] = {"prompt": PROMPT, "stop": RULE, "sampling": seeded(3), **fields}
    return engine.submit(Request(**given))


def whole(engine: Engine, ids: tuple[int, ...]) -> str:
    """What is whole of the characters that ``ids`` spell."""
    return b"".join(engine.pieces(ids)).decode("utf-8", "ignore")


def test_a_fork_evaluates_its_own_token_and_no_other(engine: Engine) -> None:
    engine.reset()  # another test may have evaluated that token
    generation = submit(engine, n=3)
    finish(engine, generation)
    ids = generation.branches[1].ids
    for place in (0, 4, 9):
        asked = engine.submit(
            Request((*generation.prompt_ids, *ids[:place]), next_logprobs=9, next_ids=ids[place : place + 1],
                    stop=Stop(max_tokens=0), add_bos=False)
        )  # fmt: skip
        finish(engine, asked)
        other = next(token for token, _ in asked.next_logprobs if token != ids[place])
        with decoded_rows(engine) as rows:
            generation.add_branch(1, stop=Stop(max_tokens=1, ignore_eog=True), begin=(*ids[:place], other))
            finish(engine, generation)
        fork = generation.branches[-1]
        assert rows == [1]
        assert fork.ids[: place + 1] == (*ids[:place], other) and len(fork.ids) == place + 2
        assert fork.text == engine.detokenize(fork.ids) and fork.finish_reason is FinishReason.LENGTH
    assert generation.branches[1].ids == ids


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
