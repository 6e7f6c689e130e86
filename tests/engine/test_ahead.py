"""What is written ahead: only while nothing else is to be done, in room that is free; whole once wanted."""

from __future__ import annotations

import time
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.native.context import ABORTED
from srbwriter.engine.types import BranchState, Priority, Request, Stop

from .support import (
    WAIT,
    ask,
    decoded_rows,
    drive,
    finish,
    fixture_of,
    lengths,
    long_prompt,
    rest,
    seeded,
    small_engine,
    spill,
)
from .test_memories import HYBRID, SLIDING, load, path_of, write
from .test_tiers import panes, small, whole, words


def eager(engine: Engine) -> Engine:
    """The engine, told to write ahead as soon as there is nothing else to do."""
    engine._scheduler.queue.prefetch_delay = 0.0
    return engine


engine = fixture_of(lambda: eager(small()), "function")


def ahead(engine: Engine, prompt: Any, n: int = 4, tokens: int = 12, **more: Any) -> Generation:
    return ask(engine, prompt, n=n, tokens=tokens, priority=Priority.AHEAD, **more)


def children(engine: Engine, generation: Generation, index: int, **more: Any) -> Generation:
    return ahead(engine, path_of(generation.branches[index]), add_bos=False, **more)


def begun(generation: Generation, tokens: int = 3) -> bool:
    return all(length >= tokens for length in lengths(generation))


# ---- who goes first


@pytest.mark.parametrize("priority", [p for p in Priority if p is not Priority.AHEAD])
def test_any_other_request_goes_first_from_the_next_step_on(engine: Engine, priority: Priority) -> None:
    early = ahead(engine, "The king said", tokens=40)
    drive(engine, lambda: begun(early))
    written = lengths(early)
    other = ask(engine, "A fox in the", n=2, tokens=20, priority=priority)
    drive(engine, lambda: other.done)
    assert lengths(early) == written
    finish(engine, early)
    assert lengths(early) == [40] * 4


def test_a_step_under_way_is_broken_off_for_a_request() -> None:
    with small_engine() as engine:
        engine._scheduler.queue.prefetch_delay = 0.0
        early = ahead(engine, "The king said", tokens=100)
        drive(engine, lambda: begun(early))
        context: Any = engine._context
        codes: list[int] = []
        native, asked = context.decode, list[Generation]()

        def decode(*meanwhile: Any) -> int:
            if not asked:
                asked.append(ask(engine, "A fox", tokens=4))
            codes.append(native(*meanwhile))
            return codes[-1]

        context.decode = decode
        finish(engine, early, *asked)
        assert codes[0] == ABORTED
        assert ABORTED not in codes[1:]
        assert lengths(early) == [100] * 4


def test_it_waits_a_moment_for_who_asks_for_one_thing_after_the_other() -> None:
    with small() as engine:
        engine._scheduler.queue.prefetch_delay = 3600.0
        early = ahead(engine, "The king said")
        for k in range(3):
            other = ask(engine, f"Tale {k}", tokens=5)
            finish(engine, other)
            rest(engine)
        assert lengths(early) == [0] * 4
        assert 3000 < (engine._scheduler.queue.seconds_to_prefetch(time.monotonic()) or 0) <= 3600
        engine._scheduler.queue.last_worked -= 3600
        finish(engine, early)


def test_who_breaks_in_again_and_again_is_waited_for_longer_until_the_writer_asks() -> None:
    with small() as engine:
        queue = engine._scheduler.queue
        early = ahead(engine, "The king said", tokens=400)
        for k in range(1, 4):
            queue.last_worked -= 3600  # the moment has passed
            had = lengths(early)
            drive(engine, lambda had=had: lengths(early) > had)
            finish(engine, ask(engine, f"Tale {k}", tokens=3))
            assert queue.prefetch_backoff == 2**k
        finish(engine, ask(engine, "A fox", tokens=3, priority=Priority.FOREGROUND))
        assert queue.prefetch_backoff == 1


def test_it_begins_by_itself_when_the_moment_has_passed() -> None:
    with small_engine(thread=True) as engine:
        other = ask(engine, "A fox", tokens=30)
        early = ahead(engine, "The king said")
        early.wait(WAIT)
        assert other.done


def test_a_text_to_embed_goes_first(engine: Engine) -> None:
    early = ahead(engine, "The king said", tokens=60)
    drive(engine, lambda: begun(early))
    working = True
    engine._scheduler.queue.works_elsewhere = lambda: working
    written = lengths(early)
    rest(engine)
    assert lengths(early) == written
    working = False
    finish(engine, early)


def test_it_rests_for_a_moment_when_somebody_needs_the_cores(engine: Engine) -> None:
    early = ahead(engine, "The king said", tokens=60)
    drive(engine, lambda: begun(early))
    queue = engine._scheduler.queue
    queue.prefetch_delay = 3600.0
    engine.stand_back()
    written = lengths(early)
    rest(engine)
    assert lengths(early) == written
    assert 3000 < (engine._scheduler.queue.seconds_to_prefetch(time.monotonic()) or 0) <= 3600
    queue.prefetch_paused_until = queue.prefetch_delay = 0.0  # the clock may have begun less than an hour ago
    finish(engine, early)
    assert lengths(early) == [60] * 4


# ---- promoted


def test_promoted_midway_it_goes_on_where_it_is() -> None:
    def written(promoted: bool) -> tuple[list[tuple[int, ...]], int]:
        with eager(small()) as engine:
            first = panes(engine, words(engine, 60), 2, 8)
            rest(engine)
            priority = Priority.AHEAD if promoted else Priority.FOREGROUND
            with decoded_rows(engine) as rows:
                path = path_of(first.branches[0])
                early = ask(engine, path, n=4, tokens=12, add_bos=False, priority=priority)
                drive(engine, lambda: begun(early, 5))
                if promoted:
                    early.promote()
                finish(engine, early)
            assert early.request.priority is Priority.FOREGROUND
            return [branch.ids for branch in early.branches], sum(rows)

    assert written(True) == written(False)


def test_promoted_when_it_is_written_nothing_is_evaluated(engine: Engine) -> None:
    first = panes(engine, words(engine, 60), 2, 8)
    rest(engine)
    early = children(engine, first, 1)
    finish(engine, early)
    rest(engine)
    with decoded_rows(engine) as rows:
        early.promote()
        rest(engine)
    assert early.done
    assert rows == [4], "the last tokens of branches that are read are evaluated while nothing else runs"
    assert all_whole(engine, early)


def test_promoted_it_is_steered_as_any_other(engine: Engine) -> None:
    early = ahead(engine, words(engine, 40), n=3, add_bos=False)
    finish(engine, early)
    early.promote()
    a, b, c = early.branches
    before = a.ids, b.ids
    a.extend(5)
    b.reroll()
    c.kill()
    engine.process()
    finish(engine, early)
    assert a.ids[:12] == before[0]
    assert len(a.ids) == 17
    assert b.ids != before[1]
    assert c.state is BranchState.DONE


# ---- only room that is free


def all_whole(engine: Engine, *rounds: Generation) -> bool:
    return all(whole(engine, branch) for generation in rounds for branch in generation.branches)


@pytest.mark.parametrize("kind", ["attention", SLIDING])
def test_nothing_that_was_used_leaves_full_cells(kind: str) -> None:
    """Without host memory, what leaves the cells is lost."""
    # Text written ahead fills every cell.
    sliding = kind == SLIDING
    made = load(kind, host_bytes=0, max_sequences=64) if sliding else small(host_bytes=0, n_ctx=512)
    with eager(made) as engine:
        older = panes(engine, words(engine, 60), 4, 20)
        rest(engine)
        first = panes(engine, words(engine, 100, 1), 6, 20)
        rest(engine)
        assert all_whole(engine, older, first)
        early = [children(engine, first, k, tokens=40) for k in range(6)]
        rest(engine)
        assert all_whole(engine, older, first)
        assert any(lengths(generation) == [40] * 4 for generation in early)
        stats = engine.stats()
        assert stats.used_cells > 0.8 * stats.total_cells, "the cells should be full"
        last = panes(engine, words(engine, 40, 2), 4, 10)
        rest(engine)
        assert all_whole(engine, older, first, last), "what was written ahead gives way first"


@pytest.mark.full
def test_what_can_be_brought_back_leaves_full_cells() -> None:
    """A session of an afternoon whose every pick was written ahead: the cells are full of its rounds."""
    with eager(small(n_ctx=512)) as engine:
        rounds = [panes(engine, words(engine, 60), 4, 12)]
        rest(engine)
        for number in range(16):
            early = [children(engine, rounds[-1], k, tokens=12) for k in range(4)]
            rest(engine)
            assert all(lengths(generation) == [12] * 4 for generation in early), f"round {number}"
            picked = early.pop(number % 4)
            picked.promote()
            for other in early:
                for branch in other.branches:
                    branch.kill()
            rounds.append(picked)
            rest(engine)
        assert all_whole(engine, *rounds)


def test_a_memory_that_cannot_be_cut_loses_nothing_either() -> None:
    with eager(load(HYBRID, host_bytes=0)) as engine:
        first = write(engine, n=4, priority=Priority.FOREGROUND, stop=Stop(max_tokens=8, ignore_eog=True))
        held = [engine.resident(path_of(branch)) for branch in first.branches]
        early = [ahead(engine, first.prompt_ids, tokens=20, add_bos=False, label=str(k)) for k in range(40)]
        rest(engine)
        assert begun(early[0], 20)
        assert [engine.resident(path_of(branch)) for branch in first.branches] == held


def test_nothing_that_was_used_leaves_full_memory() -> None:
    def filled(**options: Any) -> tuple[Engine, Generation]:
        engine = eager(small(**options))
        first = panes(engine, words(engine, 100), 4, 20)
        rest(engine)
        spill(engine)
        return engine, first

    with filled()[0] as probe:
        needed = probe.stats().host_bytes
    engine, first = filled(host_bytes=needed, n_ctx=512)
    with engine:
        assert all_whole(engine, first)
        early = [children(engine, first, k, tokens=60) for k in range(4)]
        rest(engine)
        assert any(begun(generation, 60) for generation in early)
        spill(engine)
        assert engine.stats().host_bytes <= needed
        assert all_whole(engine, first)


def test_logits_that_are_kept_stay(engine: Engine) -> None:
    tree = engine._cache.tree
    tree._rows_budget = 8
    first = panes(engine, words(engine, 60), 7, 8)
    rest(engine)
    paths = [path_of(branch) for branch in first.branches]
    assert all(tree.logits_after(path) is not None for path in paths)
    stop = Stop(max_tokens=20, token_ids=tuple(range(0, engine.info.n_vocab, 3)))
    sampling = seeded(9)
    early = [
        engine.submit(
            Request(path, n=4, stop=stop, sampling=sampling, add_bos=False, priority=Priority.AHEAD)
        )
        for path in paths[:3]
    ]
    finish(engine, *early)
    assert all(tree.logits_after(path) is not None for path in paths)


def test_without_room_it_rests_and_takes_it_when_it_comes(engine: Engine) -> None:
    with eager(small(n_ctx=256, host_bytes=0)) as engine:
        first = panes(engine, words(engine, 240), 1, 8)
        rest(engine)
        early = children(engine, first, 0, tokens=30, n=2)
        rest(engine)  # comes back: nothing spins
        assert engine._scheduler.queue.seconds_to_prefetch(time.monotonic()) is None
        assert not early.done
        assert whole(engine, first.branches[0])
        early.promote()
        finish(engine, early)  # whoever wants it gets room as anybody does
        assert engine.process() is False


def test_what_is_thrown_away_leaves_nothing_but_what_was_there(engine: Engine) -> None:
    first = panes(engine, words(engine, 60), 3, 8)
    rest(engine)
    cells = engine.stats().used_cells
    early, other = children(engine, first, 0), children(engine, first, 1, tokens=200)
    finish(engine, early)
    drive(engine, lambda: begun(other))
    for generation in (early, other):
        for branch in generation.branches:
            branch.kill()
    rest(engine)
    assert other.done
    assert all_whole(engine, first)
    assert engine.stats().used_cells == cells


def test_what_is_thrown_away_spares_the_same_words_that_were_used(engine: Engine) -> None:
    prompt = words(engine, 40)
    used = engine.submit(
        Request(prompt, n=2, stop=Stop(max_tokens=8, ignore_eog=True), sampling=seeded(5), add_bos=False,
                priority=Priority.FOREGROUND)
    )  # fmt: skip
    finish(engine, used)
    rest(engine)
    again = ahead(engine, prompt, n=2, tokens=8, add_bos=False)
    finish(engine, again)
    assert again.branches[0].ids == used.branches[0].ids
    for branch in again.branches:
        branch.kill()
    rest(engine)
    assert all_whole(engine, used)


def test_many_wait_while_somebody_writes_and_cost_no_step_its_speed(engine: Engine) -> None:
    """The usual step stays the usual one, whatever waits to be written ahead."""
    for k in range(5):
        ahead(engine, long_prompt(engine, 30, f"{k} "))
    other = ask(engine, "A fox", n=3, tokens=40)
    drive(engine, lambda: begun(other, 5))
    assert engine._scheduler.queue.steady
    finish(engine, other)


@pytest.mark.parametrize("n", [1, 2])
def test_rows_of_logits_that_are_all_in_use_do_not_keep_it_from_writing(n: int) -> None:
    with eager(small(logits_rows=4)) as engine:
        for k in range(6):
            finish(engine, ask(engine, f"Tom saw {k} cats and", tokens=3))
        rest(engine)
        assert engine.stats().logits_rows == 4
        early = ahead(engine, "The king said", n=n, tokens=5)
        drive(engine, lambda: early.done, most=100)
        assert lengths(early) == [5] * n
        assert engine.stats().logits_rows == 4
