"""Background work: only while nothing else is to be done, in room that is free; whole once it is wanted."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest

from srbwriter.engine.engine import Engine
from srbwriter.engine.generation import Generation
from srbwriter.engine.native.context import ABORTED
from srbwriter.engine.queue import REST_SECONDS
from srbwriter.engine.types import Priority

from .support import WAIT, ask, decoded_rows, drive, finish, fixture_of, lengths, rest, small_engine
from .test_memories import SLIDING, load, path_of
from .test_tiers import panes, small, whole, words


def eager(engine: Engine) -> Engine:
    """The engine, told to begin background work as soon as there is nothing else to do."""
    engine._scheduler.queue.rest_seconds = 0.0
    return engine


engine = fixture_of(lambda: eager(small()), "function")


def ahead(engine: Engine, prompt: Any, n: int = 4, tokens: int = 12, **more: Any) -> Generation:
    return ask(engine, prompt, n=n, tokens=tokens, priority=Priority.BACKGROUND, **more)


def children(engine: Engine, generation: Generation, index: int, **more: Any) -> Generation:
    return ahead(engine, path_of(generation.branches[index]), add_bos=False, **more)


def begun(generation: Generation, tokens: int = 3) -> bool:
    return all(length >= tokens for length in lengths(generation))


def all_whole(engine: Engine, *rounds: Generation) -> bool:
    return all(whole(engine, branch) for generation in rounds for branch in generation.branches)


def test_a_pick_does_not_wait_for_the_last_tokens_of_its_siblings(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = panes(engine, words(engine, 60), 4, 8)
    context, picks, codes = engine._context, list[Generation](), list[int]()
    decode = context.decode

    def pick(*args: Any) -> int:
        if not picks:
            picks.append(ask(engine, path_of(first.branches[1]), n=2, tokens=4, add_bos=False))
        codes.append(decode(*args))
        return codes[-1]

    monkeypatch.setattr(context, "decode", pick)
    rest(engine)
    assert codes[0] == ABORTED
    assert lengths(picks[0]) == [4, 4]
    assert all_whole(engine, first, picks[0]), "they are evaluated later"


def test_a_rest_begins_when_a_long_step_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    fake = SimpleNamespace(monotonic=lambda: clock[0], perf_counter=time.perf_counter)
    monkeypatch.setattr("srbwriter.engine.scheduler.time", fake)
    with small() as engine:
        engine._scheduler.queue.rest_seconds = REST_SECONDS
        context = engine._context
        decode = context.decode

        def decode_slowly(*args: Any) -> int:
            clock[0] += 1.0
            return decode(*args)

        monkeypatch.setattr(context, "decode", decode_slowly)
        panes(engine, words(engine, 60), 4, 8)
        with decoded_rows(engine) as rows:
            assert not engine.process()
            assert rows == []
            clock[0] += REST_SECONDS
            engine.process()
            assert rows == [4]


def test_it_begins_by_itself_when_the_moment_has_passed() -> None:
    with small_engine(thread=True) as engine:
        other = ask(engine, "A fox", tokens=30)
        early = ahead(engine, "The king said")
        early.wait(WAIT)
        assert other.done


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


@pytest.mark.parametrize("kind", ["attention", SLIDING])
def test_nothing_that_was_used_leaves_full_cells(kind: str) -> None:
    """Without host memory, what leaves the cells is lost."""
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
