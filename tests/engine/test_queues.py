"""When cells, sequences or places run out requests wait, and all come to their end; N grows and shrinks."""

from __future__ import annotations

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.types import FinishReason, LimitExceeded

from .support import (
    ask,
    decoded_rows,
    drive,
    finish,
    fixture_of,
    lengths,
    long_prompt,
    stepped,
)

engine = fixture_of(stepped, "function")


def test_requests_wait_for_cells_and_are_served_in_their_order() -> None:
    with stepped(n_ctx=256) as engine:
        queue = [ask(engine, long_prompt(engine, 180, f"Tale {k}. "), n=2, tokens=20) for k in range(4)]
        ended: list[int] = []
        engine.process()
        assert engine.stats().waiting_requests > 0

        def all_done() -> bool:
            ended.extend(k for k, g in enumerate(queue) if g.done and k not in ended)
            return len(ended) == len(queue)

        drive(engine, all_done)
        assert ended == [0, 1, 2, 3]
        assert [lengths(g) for g in queue] == [[20, 20]] * 4
        assert {b.finish_reason for g in queue for b in g.branches} == {FinishReason.LENGTH}
        assert engine.stats().waiting_requests == 0


@pytest.mark.parametrize("n", [1, 2])
def test_two_that_keep_nothing_outside_the_cells_take_turns_and_get_on(n: int) -> None:
    """Where one was, the other has to read all of its text anew, a little at a time."""
    with stepped(chunk=8, n_ctx=256) as engine:
        both = [
            ask(engine, long_prompt(engine, 200, tale), n=n, tokens=24, cache_prompt=False)
            for tale in ("Tom. ", "The old king. ")
        ]
        finish(engine, *both)
        assert [lengths(g) for g in both] == [[24] * n] * 2
        assert engine.stats().prompt_rows <= 4 * 200  # no one leaves before that was worth reading for


def test_one_that_goes_on_from_idle_text_waits_for_room_for_all_of_it() -> None:
    with stepped(n_ctx=1024) as engine:
        known = long_prompt(engine, 450, "The old king. ")
        finish(engine, ask(engine, known, tokens=4))
        running = ask(engine, long_prompt(engine, 400, "Tom. "), tokens=200)
        drive(engine, lambda: lengths(running)[0] > 100)
        with decoded_rows(engine) as rows:
            more = ask(engine, [*known, *long_prompt(engine, 140, "A fox. ")], n=4, tokens=20)
            finish(engine, running, more)
        assert lengths(more) == [20] * 4
        assert sum(rows) <= 500  # 140 of the prompt, 180 of text; it was read four times


def test_one_sequence_serves_requests_that_begin_alike_in_turn() -> None:
    with stepped(n_ctx=256, max_branches=1, max_sequences=1) as engine:
        both = [ask(engine, long_prompt(engine, 40, tale), tokens=20) for tale in ("A fox. ", "A hen. ")]
        finish(engine, *both)
        assert [lengths(g) for g in both] == [[20], [20]]
        again = ask(engine, long_prompt(engine, 40, "An owl. "), tokens=5)
        finish(engine, again)
        assert lengths(again) == [5]


# ---- how many


def test_sixty_four_branches_live_at_once(engine: Engine) -> None:
    assert engine.max_branches == 64
    generation = ask(engine, n=64, tokens=6)
    with decoded_rows(engine) as rows:
        drive(engine, lambda: min(lengths(generation)) >= 3)
        assert engine.stats().live_branches == 64
        finish(engine, generation)
    assert lengths(generation) == [6] * 64
    assert max(rows[1:]) <= 64
    assert len({b.ids for b in generation.branches}) > 32
    with pytest.raises(LimitExceeded) as caught:
        ask(engine, n=65)
    assert (caught.value.n, caught.value.limit) == (65, 64)
